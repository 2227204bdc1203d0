// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/commands"
)

// TestCommand: the defaults apply without a file, and the configuration in manifests is valid.
func TestCommand(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: controller.config.stowage.dev/v1alpha1\nkind: ControllerConfiguration\nnodeLoss: {policy: Lose}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands.Run(t, NewCommand, map[string]commands.Case{
		"outside of a cluster": {Err: "--kubeconfig"},
		"what is wrong":        {Args: []string{"validate", file}, Err: "nodeLoss.policy: Unsupported"},
		"what is shipped":      {Args: []string{"validate", "../../../manifests/controller/base/config.yaml"}, Want: "is valid, node loss Keep after 5m0s"},
	})
}

// TestTrim: fields that no loop reads are removed.
func TestTrim(t *testing.T) {
	t.Parallel()
	pod := builders.MakePod("p").PVC("c").Obj()
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	trimmed, err := trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	if got := trimmed.(*corev1.Pod); got.ManagedFields != nil || got.Spec.Containers != nil || len(got.Spec.Volumes) != 1 {
		t.Errorf("kept %+v", got)
	}
}

// TestTrimKeepsPhaseWriters: the loop that works instead of the PV controller finds another one by the
// managed fields of volumes.
func TestTrimKeepsPhaseWriters(t *testing.T) {
	t.Parallel()
	for enabled, want := range map[bool][]metav1.ManagedFieldsEntry{true: {{Manager: "m", Subresource: "status"}}, false: nil} {
		settings, err := v1alpha1.Default()
		if err != nil {
			t.Fatal(err)
		}
		settings.ClaimBinder.InPlace.Enabled = enabled
		volume := builders.MakePV("v").Obj()
		volume.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "m", Subresource: "status", FieldsV1: fields(t, `{"f:status":{"f:phase":{}}}`)},
			{Manager: "n", FieldsV1: fields(t, `{"f:spec":{}}`)},
		}
		if _, err := trimFor(settings)(volume); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, volume.ManagedFields); diff != "" {
			t.Errorf("enabled %t, managed fields (-want +got):\n%s", enabled, diff)
		}
	}
}

func fields(t *testing.T, text string) *metav1.FieldsV1 {
	t.Helper()
	f := &metav1.FieldsV1{}
	if err := f.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return f
}

// failing is a runner that fails at once.
type failing struct{ err error }

func (f failing) Run(context.Context) error { return f.err }

// TestRunAll: a failed loop stops the others, and the error names it.
func TestRunAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	err := runAll(t.Context(), []namedLoop{{"good", disabled{}}, {"bad", failing{broken}}})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "bad") {
		t.Errorf("error %v, want that of the loop bad", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := runAll(ctx, []namedLoop{{"good", disabled{}}}); err != nil {
		t.Errorf("error %v after a cancellation", err)
	}
}
