// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
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

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const plain = `apiVersion: extender.config.stowage.dev/v1alpha1
kind: ExtenderConfiguration
serving: {address: "127.0.0.1:0", insecure: true}
`

// TestCommand: what is wrong is said before anything starts. Not in parallel: logging
// is the process's.
func TestCommand(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
		err  string
	}{
		"without configuration":    {nil, "", "--config"},
		"a file that is missing":   {[]string{"--config=/does/not/exist"}, "", "/does/not/exist"},
		"a file that is wrong":     {[]string{"--config=" + file(t, plain+"colour: red\n")}, "", "colour"},
		"validate what is right":   {[]string{"validate", file(t, plain)}, "is valid, mode Full", ""},
		"validate what is wrong":   {[]string{"validate", file(t, plain+"mode: Half\n")}, "", "mode: Unsupported"},
		"validate what is shipped": {[]string{"validate", "../../../manifests/extender/advisory/config.yaml"}, "is valid, mode Advisory", ""},
		"outside of a cluster":     {[]string{"--kubeconfig=", "--config=" + file(t, plain)}, "", "--kubeconfig"},
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

// TestTrim: what the engine does not read is not kept.
func TestTrim(t *testing.T) {
	t.Parallel()
	pod := builders.MakePod("p").PVC("c").Obj()
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	trimmed, err := trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	if got := trimmed.(*v1.Pod); got.ManagedFields != nil || got.Spec.Containers != nil || len(got.Spec.Volumes) != 1 {
		t.Errorf("kept %+v", got)
	}
}

// TestOnlyLeader: who stands by turns calls away.
func TestOnlyLeader(t *testing.T) {
	t.Parallel()
	leading := &atomic.Bool{}
	handler := onlyLeader(leading, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusTeapot} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/filter", nil))
		if w.Code != want {
			t.Errorf("status %d, want %d", w.Code, want)
		}
		leading.Store(true)
	}
}
