// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestVerify corrupts the final state of a run, and expects an error.
func TestVerify(t *testing.T) {
	t.Parallel()
	// change stores another state of the first pod's volume, and passes it to the cache.
	change := func(t *testing.T, m *model, how func(*v1.PersistentVolume)) {
		w := m.running[0]
		claim, err := m.claim(w.pod.Namespace, w.claims[0])
		if err != nil {
			t.Fatal(err)
		}
		old, err := m.volume(claim.Spec.VolumeName)
		if err != nil {
			t.Fatal(err)
		}
		pv := old.DeepCopy()
		how(pv)
		m.put(m.volumes, old, pv)
	}
	for name, test := range map[string]struct {
		spoil func(*testing.T, *model)
		want  string // of the error; "": none
	}{
		"as it was left": {func(*testing.T, *model) {}, ""},
		"a volume was given twice": {func(t *testing.T, m *model) {
			change(t, m, func(pv *v1.PersistentVolume) {
				pv.Spec.ClaimRef.UID = "another"
				if _, err := m.client.CoreV1().PersistentVolumes().Update(t.Context(), pv, metav1.UpdateOptions{}); err != nil {
					t.Log(err) // the version is old; the attempt counts
				}
				pv.Spec.ClaimRef.UID = "yet another"
			})
		}, "two claims"},
		"a volume has another owner": {func(t *testing.T, m *model) {
			change(t, m, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID = "another" })
		}, "not bound"},
		"a volume was freed under its claim": {func(t *testing.T, m *model) {
			change(t, m, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef, pv.Status.Phase = nil, v1.VolumeAvailable })
		}, "not bound"},
		"a volume has shrunk": {func(t *testing.T, m *model) {
			change(t, m, func(pv *v1.PersistentVolume) { pv.Spec.Capacity = nil })
		}, "too small"},
		"a pod runs elsewhere":      {func(_ *testing.T, m *model) { m.running[0].pod.Spec.NodeName = "elsewhere" }, "the pod on elsewhere"},
		"a pod ended without event": {func(_ *testing.T, m *model) { m.running = m.running[1:] }, "used by claim"},
		"something is still reserved": {func(t *testing.T, m *model) {
			a, err := m.arrive()
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := m.place(t.Context(), a.pod, false); err != nil {
				t.Fatal(err)
			}
		}, "want no reservation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Default(100, 50)
			cfg.Returning = 0
			m := newModel(cfg)
			m.fill()
			for _, step := range []func() error{
				func() error { return m.build(t.Context()) }, func() error { return m.simulate(t.Context()) },
			} {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			test.spoil(t, m)
			err := m.verify()
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("verify returns %v, want %q", err, test.want)
			}
		})
	}
}
