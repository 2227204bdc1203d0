// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestExpectedPod: a pod that the informer has not shown yet exists while the caller
// expects it and the informer does not show its deletion.
func TestExpectedPod(t *testing.T) {
	t.Parallel()
	p := pod("p")
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	tests := map[string]struct {
		do   func(w *world)
		want bool
	}{
		"neither shown nor expected":    {do: func(*world) {}},
		"it is expected":                {do: func(w *world) { w.ExpectPod(name, p.UID) }, want: true},
		"it is no longer expected":      {do: func(w *world) { w.ExpectPod(name, p.UID)() }},
		"its deletion was shown":        {do: func(w *world) { w.ExpectPod(name, p.UID); w.podDeleted(p) }},
		"it was shown, and is expected": {do: func(w *world) { w.put(p); w.ExpectPod(name, p.UID)() }, want: true},
		"another pod of its name is expected": {do: func(w *world) {
			w.ExpectPod(name, "other")
		}},
	}
	for title, tc := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tc.do(w)
			if got := w.PodExists(name, p.UID); got != tc.want {
				t.Errorf("PodExists: %t, want %t", got, tc.want)
			}
			w.check()
		})
	}
}
