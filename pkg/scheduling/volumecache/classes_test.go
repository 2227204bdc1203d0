// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/testing/builders"
)

// TestClassDeleted: nothing is kept for a deleted class, even if a cycle still uses its
// object.
func TestClassDeleted(t *testing.T) {
	t.Parallel()
	class := func(uid types.UID) *builders.Class {
		return builders.MakeClass("made").UID(string(uid)).Provisioner("csi").AllowedTopology("rack", string(uid))
	}
	for name, do := range map[string]func(w *testbed){
		"a cycle that read it continues": func(w *testbed) {
			former := w.Class("made")
			w.remove(former)
			if w.syncClass(former, nil) != nil {
				t.Error("a deleted class has an entry")
			}
		},
		"a cycle continues that read a former class of the name": func(w *testbed) {
			former := w.Class("made")
			w.put(class("latter").Obj())
			w.syncClass(w.Class("made"), nil)
			if w.syncClass(former, nil) != nil {
				t.Error("a class that was replaced has an entry")
			}
			w.remove(w.Class("made"))
		},
		"it was replaced before, and no pod used it since": func(w *testbed) {
			w.syncClass(w.Class("made"), nil)
			w.put(class("latter").Obj())
			w.remove(w.Class("made"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, class("former").Obj())
			w.syncClass(w.Class("made"), nil)
			do(w)
			w.check()
			if _, segments := w.index.Len(); len(w.free.class) != 0 || segments != 0 {
				t.Errorf("%d classes and %d segments are left, want none", len(w.free.class), segments)
			}
		})
	}
}
