// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"stowage.dev/stowage/pkg/testing/commands"
)

const (
	pavExamples = "../../../manifests/pav/examples/"
	pavObjects  = "testdata/render/objects.yaml"
)

// newTestCommand returns the plugin's command, whose output a test sets.
func newTestCommand() *cobra.Command {
	return NewCommand(genericiooptions.NewTestIOStreamsDiscard())
}

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
			want, err := os.ReadFile(filepath.Join("testdata/render", name))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd := newTestCommand()
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
	const head = "apiVersion: stowage.dev/v1alpha1\nkind: PavProvisioner\nmetadata: {name: a}\n"
	const static = head + "spec: {provisioningModes: [Static], volumeStaging: {podTemplate: {metadata: {name: "
	hello := pavExamples + "hello-world.yaml"
	of := func(file, step string, more ...string) []string {
		return append([]string{"pav", "render", "-f", file, "--step", step}, more...)
	}
	context := "--context=" + file(t, "context", "{}")
	commands.Run(t, newTestCommand, map[string]commands.Case{
		"no file":                  {Args: []string{"pav", "render", "--step", "creation"}, Err: `required flag(s) "filename" not set`},
		"no step":                  {Args: []string{"pav", "render", "-f", hello}, Err: `required flag(s) "step" not set`},
		"a missing file":           {Args: of("/does/not/exist", "creation", context), Err: "/does/not/exist"},
		"a missing claim":          {Args: of(hello, "creation", "--claim=/does/not/exist"), Err: "/does/not/exist"},
		"a missing context":        {Args: of(hello, "creation", "--context=/does/not/exist"), Err: "/does/not/exist"},
		"no YAML":                  {Args: of(file(t, "none", "a: [b"), "creation", context), Err: "none: "},
		"a list":                   {Args: of(file(t, "list", "[a]"), "creation", context), Err: "list: "},
		"another kind":             {Args: of(pavObjects, "creation", context), Err: "objects.yaml: must have one object of kind PavProvisioner, and has kinds [PersistentVolumeClaim StorageClass PersistentVolume Node]"},
		"two of the kind":          {Args: of(file(t, "two", head+"---\n"+head), "creation", context), Err: "two: must have one object of kind PavProvisioner, and has kinds [PavProvisioner PavProvisioner]"},
		"another group":            {Args: of(file(t, "group", "apiVersion: pav.albertofaria.github.io/v1alpha1\nkind: PavProvisioner\n"), "creation", context), Err: "group: apiVersion must be stowage.dev/v1alpha1, and is pav.albertofaria.github.io/v1alpha1"},
		"an unknown field":         {Args: of(file(t, "field", head+"spec: {provisioningMode: [Static]}"), "creation", context), Err: `field: unknown field "spec.provisioningMode"`},
		"a field of another type":  {Args: of(file(t, "type", head+"spec: {provisioningModes: Static}"), "creation", context), Err: "spec.provisioningModes"},
		"a claim of another kind":  {Args: of(hello, "creation", "--claim="+hello), Err: "hello-world.yaml: must have one object of kind PersistentVolumeClaim, and has kinds [PavProvisioner]"},
		"an unknown step":          {Args: of(hello, "create", context), Err: `--step: must be one of [creation deletion staging unstaging validation], and is "create"`},
		"an unknown output":        {Args: of(hello, "creation", context, "-o", "xml"), Err: `--output: must be yaml or json, and is "xml"`},
		"a context and a claim":    {Args: of(hello, "creation", context, "--claim="+pavObjects), Err: "[claim context]"},
		"a context of two":         {Args: of(hello, "creation", "--context="+pavObjects), Err: "objects.yaml: must have one YAML document, and has 4"},
		"no claim":                 {Args: of(hello, "creation"), Err: "claim: must be given for the step Creation"},
		"a node that is not used":  {Args: of(hello, "creation", "--claim="+pavObjects, "--class="+pavObjects, "--node="+pavObjects), Err: "node: must not be given"},
		"a missing class":          {Args: of(hello, "creation", "--claim="+pavObjects, "--class=/does/not/exist"), Err: "/does/not/exist"},
		"a class of another kind":  {Args: of(hello, "creation", "--claim="+pavObjects, "--class="+hello), Err: "hello-world.yaml: must have one object of kind StorageClass"},
		"a claim, but no class":    {Args: of(hello, "creation", "--claim="+pavObjects), Err: "class: must be given for the step Creation"},
		"a missing volume":         {Args: of(hello, "staging", "--claim="+pavObjects, "--volume=/does/not/exist"), Err: "/does/not/exist"},
		"a volume of another kind": {Args: of(hello, "staging", "--claim="+pavObjects, "--volume="+hello), Err: "hello-world.yaml: must have one object of kind PersistentVolume"},
		"no volume":                {Args: of(hello, "staging", "--claim="+pavObjects), Err: "volume: must be given for the step Staging"},
		"a missing node":           {Args: of(hello, "staging", "--claim="+pavObjects, "--volume="+pavObjects, "--node=/does/not/exist"), Err: "/does/not/exist"},
		"a node of another kind":   {Args: of(hello, "staging", "--claim="+pavObjects, "--volume="+pavObjects, "--node="+hello), Err: "hello-world.yaml: must have one object of kind Node"},
		"no node":                  {Args: of(hello, "unstaging", "--claim="+pavObjects, "--volume="+pavObjects), Err: "node: must be given for the step Unstaging"},
		"a missing lookup":         {Args: of(hello, "creation", context, "--lookup=/does/not/exist"), Err: "/does/not/exist"},
		"a context and a class":    {Args: of(hello, "creation", context, "--class="+pavObjects), Err: "[class context]"},
		"a context and a volume":   {Args: of(hello, "staging", context, "--volume="+pavObjects), Err: "[context volume]"},
		"a context and a node":     {Args: of(hello, "staging", context, "--node="+pavObjects), Err: "[context node]"},
		"a later line":             {Args: of(file(t, "later", head+"spec: {provisioningModes: [Dynamic], volumeCreation: {capacity: 1Gi, handle: \"a\\n  {{ params.pool }}\"}, volumeStaging: '{{ a }}'}"), "creation", "--context="+file(t, "params", "params: {}")), Err: "spec.volumeCreation.handle: line 2, column 13: 'params.pool' is undefined"},
		"an error as JSON":         {Args: of(hello, "creation", context, "-o", "json"), Err: "spec.volumeCreation.capacity: line 1, column 4: "},
		"an undefined variable":    {Args: of(hello, "creation", context), Err: "spec.volumeCreation.capacity: line 1, column 4: "},
		"errors of all templates":  {Args: of(file(t, "all", static+`"{{ }}"}}}, volumeUnstaging: "{% if %}"}`), "staging", context), Err: "spec.volumeStaging.podTemplate.metadata.name: line 1, column 4: expected an expression, found the end of the expression\nspec.volumeUnstaging: line 1, column 7: "},
		"a result that is no pod":  {Args: of(file(t, "pod", static+`"{% set yaml = true %}[]"}}}}`), "staging", context), Err: "spec.volumeStaging.podTemplate.metadata.name: must not be of the type array"},
		"a claim that is not read": {Args: of(file(t, "claim", static+`"{{ get_pvc('b', 'c').metadata.uid }}"}}}, podNamespaces: {names: [c]}}`), "staging", context), Err: "spec.volumeStaging.podTemplate.metadata.name: line 1, column 4: get_pvc: no file of --lookup has the claim c/b"},
		"a lookup of another kind": {Args: of(hello, "creation", context, "--lookup="+hello), Err: "must have one object of kind PersistentVolumeClaim"},
		"an argument":              {Args: of(hello, "creation", "more"), Err: "more"},
	})
}

// The exit code is 1 for every error, and 0 without one.
func TestRenderExitCode(t *testing.T) {
	hello := []string{"pav", "render", "-f", pavExamples + "hello-world.yaml", "--step"}
	for name, tc := range map[string]struct {
		args []string
		want int
	}{
		"rendered":               {append(slices.Clone(hello), "creation", "--context=testdata/render/context.yaml"), 0},
		"a template that fails":  {append(slices.Clone(hello), "staging", "--context=testdata/render/context.yaml"), 1},
		"a flag that is missing": {hello[:4], 1},
		"a flag that is unknown": {append(slices.Clone(hello), "creation", "--unknown"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Main(tc.args, strings.NewReader(""), io.Discard, io.Discard); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
		})
	}
}
