// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"sync"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// pathTable has the state of every path on the node. Its methods are safe for concurrent use.
type pathTable struct {
	mu     sync.Mutex
	byPath map[string]*pathState
	// What the last scan found of the node as a whole. The maps are replaced, not changed.
	present map[disk.Identity]bool   // disks that are attached
	trouble map[string]*disk.Problem // by class, why its directory cannot be read
	read    map[string]bool          // classes whose directory was read
}

// pathState is what the provisioner keeps of a path from one decision to the next.
type pathState struct {
	observed observation
	// entry is what the report shows; nil until the path was decided on.
	entry *entry
	// expected is a write that the informer has not shown yet.
	expected expectation
	recheck  recheck
	// unmanagedPV names a volume of the path that this provisioner does not manage.
	unmanagedPV string
	// asking reports whether a read of the disk has not returned yet.
	asking bool
}

func newPathTable() *pathTable { return &pathTable{byPath: map[string]*pathState{}} }

// snapshot returns a copy of the state of a path, the disks that the last scan found, and
// whether it read the directory of a class. The caller does not change the map.
func (t *pathTable) snapshot(path, class string) (state pathState, present map[disk.Identity]bool, read bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byPath[path]; s != nil {
		state = *s
	}
	if state.observed.fact != nil {
		state.observed.fact = new(*state.observed.fact)
	}
	return state, t.present, t.read[class]
}

// update changes the state of a path under mu.
func (t *pathTable) update(path string, change func(*pathState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.updateLocked(path, change)
}

// updateLocked drops a state that is empty after the change. The caller holds mu.
func (t *pathTable) updateLocked(path string, change func(*pathState)) {
	s := t.byPath[path]
	if s == nil {
		s = &pathState{}
	}
	change(s)
	if *s == (pathState{}) {
		delete(t.byPath, path)
	} else {
		t.byPath[path] = s
	}
}

// identities returns the disks that the last scan found. The caller does not change them.
func (t *pathTable) identities() map[disk.Identity]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.present
}

// facts returns the facts of the last scan by path.
func (t *pathTable) facts() map[string]disk.Fact {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := map[string]disk.Fact{}
	for path, s := range t.byPath {
		if s.observed.fact != nil {
			found[path] = *s.observed.fact
		}
	}
	return found
}
