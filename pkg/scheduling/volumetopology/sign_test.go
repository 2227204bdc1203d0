// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"stowage.dev/stowage/pkg/testing/builders"
)

// sign is the pod's signature as the framework would compare it, "" for none.
func (w *testbed) sign(pod *v1.Pod) string {
	w.t.Helper()
	fragments, status := w.SignPod(w.t.Context(), pod)
	if !status.IsSuccess() {
		if status.Code() != fwk.Unschedulable {
			w.t.Fatalf("SignPod of pod %s: %v", pod.Name, status)
		}
		return ""
	}
	signature, err := json.Marshal(fragments)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(signature)
}

func TestSignPod(t *testing.T) {
	t.Parallel()
	bound := func(namespace, name, volume string) *v1.PersistentVolumeClaim {
		return claim(name, "1Gi").Namespace(namespace).Bound(volume).Obj()
	}
	in := func(namespace, name string, claims ...string) *v1.Pod {
		return builders.MakePod(name).Namespace(namespace).PVC(claims...).Obj()
	}
	w := newTestbed(t,
		bound("one", "data", "v1"), bound("two", "data", "v2"), bound("one", "log", "v3"), bound("one", "odd", "v5"), bound("two", "odd", "v5"),
		claim("open", "1Gi").Namespace("one").Obj(),
		claim("half", "1Gi").Namespace("one").VolumeName("v4").Obj(),
	)
	ephemeral := builders.MakePod("p").Namespace("one").UID("p").Ephemeral("scratch", claim("", "1Gi").Obj()).Obj()
	secret := builders.MakePod("p").Namespace("one").Volume(v1.Volume{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "x"}}}).Obj()
	tests := map[string]struct {
		a, b *v1.Pod
		same bool
	}{
		"two pods with the same claims":                      {in("one", "p", "data", "log"), in("one", "q", "data", "log"), true},
		"same-named claims of two namespaces":                {in("one", "p", "data"), in("two", "p", "data"), false},
		"claims of two namespaces that name the same volume": {in("one", "p", "odd"), in("two", "p", "odd"), false},
		"two claims of one namespace":                        {in("one", "p", "data"), in("one", "p", "log"), false},
		"without claims, in two namespaces":                  {in("one", "p"), in("two", "q"), true},
		"with a claim and without":                           {in("one", "p", "data"), in("one", "p"), false},
		"secrets are ignored":                                {secret, in("one", "p"), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := w.sign(tc.a), w.sign(tc.b)
			if a == "" || b == "" || (a == b) != tc.same {
				t.Errorf("signatures %s and %s, want the same: %t", a, b, tc.same)
			}
		})
	}
	for name, pod := range map[string]*v1.Pod{
		"an unbound claim":            in("one", "p", "data", "open"),
		"an incomplete binding":       in("one", "p", "half"),
		"a claim that does not exist": in("one", "p", "missing"),
		"an ephemeral volume":         ephemeral,
	} {
		t.Run("not signed: "+name, func(t *testing.T) {
			t.Parallel()
			if got := w.sign(pod); got != "" {
				t.Errorf("signature %s, want none", got)
			}
		})
	}
}

// TestSignatureOfReboundClaim: a claim that is recreated and bound must not share the
// results for its former volume.
func TestSignatureOfReboundClaim(t *testing.T) {
	t.Parallel()
	p := pod("p", "data")
	w := newTestbed(t, claim("data", "1Gi").Bound("v1").Obj())
	before := w.sign(p)
	w.put(claim("data", "1Gi").UID("new").Bound("v2").Obj())
	if now := w.sign(p); now == before || now == "" {
		t.Errorf("signature %s, want one that differs from %s", now, before)
	}
}
