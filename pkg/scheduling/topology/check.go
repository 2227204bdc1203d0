// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"slices"
)

// Check verifies the invariants of the index: each node is in exactly the segments whose
// condition it meets, both sides agree, and no nodes are indexed for unused anchor keys.
// Its cost is nodes × segments: for tests.
func (x *Index[S]) Check() error {
	var errs []error
	if len(x.objects) != len(x.nodes) {
		errs = append(errs, fmt.Errorf("%d nodes, %d objects", len(x.nodes), len(x.objects)))
	}
	for name, entry := range x.nodes {
		if x.objects[entry.Object] != entry || entry.Name != name {
			errs = append(errs, fmt.Errorf("node %q is not indexed by its object, or its entry is named %q", name, entry.Name))
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
				errs = append(errs, fmt.Errorf("segment %q contains unknown node %q", key, name))
			}
		}
	}
	for key := range x.nodesByAnchor {
		if x.anchorKeys[key] <= 0 {
			errs = append(errs, fmt.Errorf("nodes are indexed for anchor key %q that no segment uses", key))
		}
	}
	return errors.Join(errs...)
}
