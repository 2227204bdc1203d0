// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/pkg/testing/commands"
)

// TestCommand: certificates are required, and the shipped configuration is valid.
func TestCommand(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	const shipped = "../../../manifests/extender/advisory/config.yaml"
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: extender.config.stowage.dev/v1alpha1\nkind: ExtenderConfiguration\nmode: Half\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands.Run(t, NewCommand, map[string]commands.Case{
		"without configuration": {Err: "--config"},
		"outside a cluster":     {Args: []string{"--config=" + shipped}, Err: "--kubeconfig"},
		"an invalid file":       {Args: []string{"validate", file}, Err: "mode: Unsupported"},
		"the shipped file":      {Args: []string{"validate", shipped}, Want: "is valid, mode Advisory"},
	})
}

// TestTrim: fields that the cache does not read are removed.
func TestTrim(t *testing.T) {
	t.Parallel()
	pod := builders.MakePod("p").PVC("c").Obj()
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	pod.Status = v1.PodStatus{Phase: v1.PodPending, NominatedNodeName: "a", Message: "none"}
	trimmed, err := trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	if got := trimmed.(*v1.Pod); got.ManagedFields != nil || got.Spec.Containers != nil || len(got.Spec.Volumes) != 1 ||
		got.Status.Phase != v1.PodPending || got.Status.NominatedNodeName != "a" || got.Status.Message != "" {
		t.Errorf("kept %+v", got)
	}
}

// TestOnlyLeader: a standby rejects calls.
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

// TestMarksPods: from the resources that the API server lists, the extender knows whether it can
// evaluate the policy.
func TestMarksPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		want   bool
		err    bool
	}{
		"Kubernetes 1.36":    {body: `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"validatingadmissionpolicies"},{"name":"mutatingadmissionpolicies"}]}`, want: true},
		"Kubernetes 1.35":    {body: `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"validatingadmissionpolicies"}]}`},
		"it does not answer": {status: http.StatusForbidden, body: `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403}`, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/apis/admissionregistration.k8s.io/v1" {
					t.Errorf("request for %s", r.URL.Path)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(cmp.Or(tc.status, http.StatusOK))
				_, _ = w.Write([]byte(tc.body))
			}))
			defer api.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
			if err != nil {
				t.Fatal(err)
			}
			got, err := marksPods(t.Context(), client.Discovery().RESTClient())
			if got != tc.want || (err != nil) != tc.err {
				t.Errorf("serves the policy: %t, %v; want %t, an error: %t", got, err, tc.want, tc.err)
			}
		})
	}
}
