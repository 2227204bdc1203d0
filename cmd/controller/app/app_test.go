// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"

	"stowage.dev/stowage/pkg/testing/builders"
)

// execute runs the command and returns what it prints.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	// Each command applies the logging flags, which a process may do once.
	if err := logsapi.ResetForTest(nil); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestCommand: what is wrong is said before anything starts. Not in parallel: logging
// is the process's.
func TestCommand(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	plain := "apiVersion: controller.config.stowage.dev/v1alpha1\nkind: ControllerConfiguration\n"
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, tc := range map[string]struct {
		args []string
		want string
		err  string
	}{
		"a file that is missing":   {[]string{"--config=/does/not/exist"}, "", "/does/not/exist"},
		"a file that is wrong":     {[]string{"--config=" + file(plain+"colour: red\n")}, "", "colour"},
		"validate what is right":   {[]string{"validate", file(plain)}, "is valid, node loss Keep after 5m0s", ""},
		"validate what is wrong":   {[]string{"validate", file(plain + "nodeLoss: {policy: Lose}\n")}, "", "nodeLoss.policy: Unsupported"},
		"validate what is shipped": {[]string{"validate", "../../../manifests/controller/base/config.yaml"}, "is valid", ""},
		"outside of a cluster":     {nil, "", "--kubeconfig"},
		"a kubeconfig of nothing":  {[]string{"--kubeconfig=/does/not/exist"}, "", "/does/not/exist"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(t, tc.args...)
			switch {
			case tc.err == "" && (err != nil || !strings.Contains(out, tc.want)):
				t.Errorf("error %v, output %q; want %q", err, out, tc.want)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("error %v, want one with %q", err, tc.err)
			}
		})
	}
}

// TestTrim: what no loop reads is not kept.
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

// TestRunAll: a loop that fails ends the others, and is named.
func TestRunAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	wait := func(ctx context.Context) error { <-ctx.Done(); return nil }
	err := runAll(t.Context(), []loop{{"good", wait}, {"bad", func(context.Context) error { return broken }}})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "bad") {
		t.Errorf("error %v, want that of the loop bad", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := runAll(ctx, []loop{{"good", wait}}); err != nil {
		t.Errorf("error %v after an end that was asked for", err)
	}
}
