// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	logsapi "k8s.io/component-base/logs/api/v1"

	"stowage.dev/stowage/pkg/testing/commands"
)

const (
	pavExamples = "../../../manifests/pav/examples/"
	pavObjects  = "testdata/render/objects.yaml"
)

// TestRenderedExamples: each step of each example is rendered as the file that has its name. To
// write the files, run the command with the same arguments.
func TestRenderedExamples(t *testing.T) {
	dynamic := []string{"--claim=" + pavObjects, "--class=" + pavObjects, "--lookup=testdata/render/raw.yaml"}
	static := []string{"--volume=" + pavObjects}
	staging := []string{"--claim=" + pavObjects, "--volume=" + pavObjects, "--node=" + pavObjects}
	tests := map[string]struct {
		example, step string
		args          []string
	}{
		"hello-world-validation.yaml":         {"hello-world", "validation", dynamic},
		"hello-world-creation.yaml":           {"hello-world", "creation", dynamic},
		"hello-world-deletion.yaml":           {"hello-world", "deletion", dynamic},
		"hello-world-staging.yaml":            {"hello-world", "staging", staging},
		"hello-world-unstaging.yaml":          {"hello-world", "unstaging", staging},
		"object-store-validation.yaml":        {"object-store", "validation", dynamic},
		"object-store-static-validation.yaml": {"object-store", "validation", static},
		"object-store-creation.yaml":          {"object-store", "creation", dynamic},
		"object-store-deletion.yaml":          {"object-store", "deletion", dynamic},
		"object-store-staging.json":           {"object-store", "staging", append([]string{"--output=json"}, staging...)},
		"encryption-validation.yaml":          {"encryption", "validation", dynamic},
		"encryption-creation.yaml":            {"encryption", "creation", dynamic},
		"encryption-deletion.yaml":            {"encryption", "deletion", dynamic},
		"encryption-staging.yaml":             {"encryption", "staging", staging},
		"encryption-unstaging.yaml":           {"encryption", "unstaging", staging},
		"hello-world-context.yaml":            {"hello-world", "creation", []string{"--context=testdata/render/context.yaml"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := logsapi.ResetForTest(nil); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join("testdata/render", name))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd := NewCommand()
			cmd.SetOut(&out)
			cmd.SetArgs(append([]string{"pav", "render", "-f", pavExamples + tc.example + ".yaml", "--step", tc.step}, tc.args...))
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRenderErrors(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = "apiVersion: stowage.dev/v1alpha1\nkind: PavProvisioner\nmetadata: {name: a}\n"
	const static = head + "spec: {provisioningModes: [Static], volumeStaging: {podTemplate: {metadata: {name: "
	hello := pavExamples + "hello-world.yaml"
	of := func(file, step string, more ...string) []string {
		return append([]string{"pav", "render", "-f", file, "--step", step}, more...)
	}
	context := "--context=" + file("context", "{}")
	commands.Run(t, NewCommand, map[string]commands.Case{
		"no file":                  {Args: []string{"pav", "render", "--step", "creation"}, Err: `required flag(s) "filename" not set`},
		"no step":                  {Args: []string{"pav", "render", "-f", hello}, Err: `required flag(s) "step" not set`},
		"a missing file":           {Args: of("/does/not/exist", "creation", context), Err: "/does/not/exist"},
		"a missing claim":          {Args: of(hello, "creation", "--claim=/does/not/exist"), Err: "/does/not/exist"},
		"a missing context":        {Args: of(hello, "creation", "--context=/does/not/exist"), Err: "/does/not/exist"},
		"no YAML":                  {Args: of(file("none", "a: [b"), "creation", context), Err: "none: "},
		"a list":                   {Args: of(file("list", "[a]"), "creation", context), Err: "list: "},
		"another kind":             {Args: of(pavObjects, "creation", context), Err: "objects.yaml: must have one object of kind PavProvisioner, and has kinds [PersistentVolumeClaim StorageClass PersistentVolume Node]"},
		"two of the kind":          {Args: of(file("two", head+"---\n"+head), "creation", context), Err: "two: must have one object of kind PavProvisioner, and has kinds [PavProvisioner PavProvisioner]"},
		"another group":            {Args: of(file("group", "apiVersion: pav.albertofaria.github.io/v1alpha1\nkind: PavProvisioner\n"), "creation", context), Err: "group: apiVersion must be stowage.dev/v1alpha1, and is pav.albertofaria.github.io/v1alpha1"},
		"an unknown field":         {Args: of(file("field", head+"spec: {provisioningMode: [Static]}"), "creation", context), Err: `field: unknown field "spec.provisioningMode"`},
		"a field of another type":  {Args: of(file("type", head+"spec: {provisioningModes: Static}"), "creation", context), Err: "spec.provisioningModes"},
		"a claim of another kind":  {Args: of(hello, "creation", "--claim="+hello), Err: "hello-world.yaml: must have one object of kind PersistentVolumeClaim, and has kinds [PavProvisioner]"},
		"an unknown step":          {Args: of(hello, "create", context), Err: `--step: must be one of [creation deletion staging unstaging validation], and is "create"`},
		"an unknown output":        {Args: of(hello, "creation", context, "-o", "xml"), Err: `--output: must be yaml or json, and is "xml"`},
		"a context and a claim":    {Args: of(hello, "creation", context, "--claim="+pavObjects), Err: "[claim context]"},
		"a context of two":         {Args: of(hello, "creation", "--context="+pavObjects), Err: "objects.yaml: must have one YAML document, and has 4"},
		"no claim":                 {Args: of(hello, "creation"), Err: "claim: must be given for the step Creation"},
		"a node that is not used":  {Args: of(hello, "creation", "--claim="+pavObjects, "--class="+pavObjects, "--node="+pavObjects), Err: "node: must not be given"},
		"an undefined variable":    {Args: of(hello, "creation", context), Err: "spec.volumeCreation.capacity: line 1, column 4: "},
		"errors of all templates":  {Args: of(file("all", static+`"{{ }}"}}}, volumeUnstaging: "{% if %}"}`), "staging", context), Err: "spec.volumeStaging.podTemplate.metadata.name: line 1, column 4: expected an expression, found the end of the expression\nspec.volumeUnstaging: line 1, column 7: "},
		"a result that is no pod":  {Args: of(file("pod", static+`"{% set yaml = true %}[]"}}}}`), "staging", context), Err: "spec.volumeStaging.podTemplate.metadata.name: must not be of the type array"},
		"a claim that is not read": {Args: of(file("claim", static+`"{{ get_pvc('b', 'c').metadata.uid }}"}}}, podNamespaces: {names: [c]}}`), "staging", context), Err: "spec.volumeStaging.podTemplate.metadata.name: line 1, column 4: get_pvc: no file of --lookup has the claim c/b"},
		"a lookup of another kind": {Args: of(hello, "creation", context, "--lookup="+hello), Err: "must have one object of kind PersistentVolumeClaim"},
		"an argument":              {Args: of(hello, "creation", "more"), Err: "more"},
	})
}
