// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestExpectedPod: a pod that the informer has not shown yet exists for as long as
// the caller says so and the informer does not say otherwise.
func TestExpectedPod(t *testing.T) {
	t.Parallel()
	p := pod("p")
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	tests := map[string]struct {
		do   func(w *world)
		want bool
	}{
		"nobody knows it":               {do: func(*world) {}},
		"it is expected":                {do: func(w *world) { w.ExpectPod(name, p.UID) }, want: true},
		"it is not expected any more":   {do: func(w *world) { w.ExpectPod(name, p.UID)() }},
		"it was shown to be deleted":    {do: func(w *world) { w.ExpectPod(name, p.UID); w.podDeleted(p) }},
		"it was shown, and is expected": {do: func(w *world) { w.put(p); w.ExpectPod(name, p.UID)() }, want: true},
		"another one of its name is expected": {do: func(w *world) {
			w.ExpectPod(name, "other")
		}},
	}
	for story, tc := range tests {
		t.Run(story, func(t *testing.T) {
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
