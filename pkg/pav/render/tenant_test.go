// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/pav/render"
)

// hostile are annotations of claims that tenants may write.
var hostile = []string{
	"", "a b", "it's", `"`, "`id`", "$(id)", "${HOME}", "; exit 7", "a\n; exit 7 #", "-rf", "'; exit 7; '", "{{ pvc }}", "{% set yaml = true %}{}", "*a", "a: b", "# no comment",
	"a\n  securityContext: {privileged: true}", "$(SECRET)", "\x00\u2028\u0085", strings.Repeat("x", 100_000),
}

// claimWith returns the variables of a claim with the annotation a.
func claimWith(value string) map[string]any {
	return map[string]any{"pvc": map[string]any{"metadata": map[string]any{"namespace": "shop", "annotations": map[string]any{"a": value}}}}
}

// TestValuesOfTenants: text that a tenant writes and a template quotes is one value of YAML and one word of
// a shell, and is never a template.
func TestValuesOfTenants(t *testing.T) {
	t.Parallel()
	const spec = `{volumeCreation: {podTemplate: {spec: {containers: [
{name: plain, image: "{{ pvc.metadata.annotations.a }}"},
"{% set yaml = true %}name: quoted\nimage: {{ pvc.metadata.annotations.a | tojson }}\n",
{name: word, image: "{{ pvc.metadata.annotations.a | tobash }}"}]}}}}`
	for _, value := range hostile {
		got, err := render.Creation(render.Request{Spec: specOf(t, spec), Variables: claimWith(value)})
		if err != nil {
			t.Errorf("%.40q: %v", value, err)
			continue
		}
		containers := got.PodTemplate.Spec.Containers
		for i, name := range []string{"plain", "quoted"} {
			if c := containers[i]; c.Name != name || c.Image != value || c.SecurityContext != nil {
				t.Errorf("%.40q: %.200v, want a container with this image only", value, c)
			}
		}
		if strings.ContainsRune(value, 0) {
			continue // no argument of a process can have it
		}
		word(t, value, &containers[2])
	}
}

// word checks that a shell reads the image of a container as one word. Not all shells have $'\n', by which
// tobash writes a newline.
func word(t *testing.T, value string, c *corev1.Container) {
	t.Helper()
	shell := exec.Command("sh", "-c", `eval "set -- $(cat)"; printf '%s\n' "$#"; printf %s "$1"`)
	shell.Stdin = strings.NewReader(c.Image)
	out, err := shell.Output()
	want := "1\n" + value
	if err != nil || !strings.Contains(value, "\n") && string(out) != want || !strings.HasPrefix(string(out), "1\n") {
		t.Errorf("%.40q: the shell has read %.80q, %v", value, out, err)
	}
}

// TestUnquotedValueOfTenant: without tojson, a tenant adds fields to an object.
func TestUnquotedValueOfTenant(t *testing.T) {
	t.Parallel()
	const spec = `{volumeCreation: {podTemplate: {spec: {containers: ["{% set yaml = true %}name: a\nimage: {{ pvc.metadata.annotations.a }}\n"]}}}}`
	got, err := render.Creation(render.Request{Spec: specOf(t, spec), Variables: claimWith("a\nsecurityContext: {privileged: true}")})
	if err != nil {
		t.Fatal(err)
	}
	if s := got.PodTemplate.Spec.Containers[0].SecurityContext; s == nil || s.Privileged == nil || !*s.Privileged {
		t.Errorf("%+v: docs/security.md states that a tenant can add fields", s)
	}
}
