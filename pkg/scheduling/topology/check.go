// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"slices"
)

// Check verifies the invariants of the index: each node lies in exactly the
// segments whose condition it meets, both sides agree, and nothing is held
// for anchors nobody uses. Its cost is nodes × segments: for tests.
func (x *Index[S, N]) Check() error {
	var errs []error
	if len(x.objects) != len(x.nodes) {
		errs = append(errs, fmt.Errorf("%d nodes are found by %d objects", len(x.nodes), len(x.objects)))
	}
	for name, entry := range x.nodes {
		if x.objects[entry.Object] != entry || entry.Name != name {
			errs = append(errs, fmt.Errorf("node %q is not found by its object, or is called %q", name, entry.Name))
		}
		for key, s := range x.segments {
			in, listed := s.nodes[name] == entry, slices.Contains(entry.Segments, s)
			if want := s.condition.Admits(entry.Object); in != want || listed != want {
				errs = append(errs, fmt.Errorf("node %q, segment %q: met %t, in segment %t, listed at node %t", name, key, want, in, listed))
			}
		}
	}
	for key, s := range x.segments {
		if s.users <= 0 {
			errs = append(errs, fmt.Errorf("segment %q has %d users", key, s.users))
		}
		for name := range s.nodes {
			if x.nodes[name] == nil {
				errs = append(errs, fmt.Errorf("segment %q holds unknown node %q", key, name))
			}
		}
	}
	for key := range x.holders {
		if x.keys[key] <= 0 {
			errs = append(errs, fmt.Errorf("nodes are held for anchor key %q that no segment uses", key))
		}
	}
	return errors.Join(errs...)
}
