// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestPredecessors(t *testing.T) {
	type answer struct {
		Predecessors []disk.Identity
		Unaccounted  bool
	}
	record := func(identity disk.Identity, path string, state disk.State, generation int64) disk.Record {
		return disk.Record{Identity: identity, HostPath: path, State: state, Generation: generation}
	}
	const here, there = "/mnt/fast/a", "/mnt/fast/b"
	for name, test := range map[string]struct {
		identity disk.Identity
		records  []disk.Record
		present  []disk.Identity
		want     answer
	}{
		"a node without records": {identity: "weak:b2:1"},
		"after a restart, half cleaned": {
			identity: "weak:b2:1", records: []disk.Record{record("weak:b1:1", here, disk.Cleaning, 7)}, want: answer{[]disk.Identity{"weak:b1:1"}, true},
		},
		"after a restart, with a volume": {
			identity: "weak:b2:1", records: []disk.Record{record("weak:b1:1", here, disk.Published, 7)}, want: answer{[]disk.Identity{"weak:b1:1"}, true},
		},
		"attached again without a restart": {
			identity: "weak:b1:2", records: []disk.Record{record("weak:b1:1", here, disk.Retained, 7)}, want: answer{[]disk.Identity{"weak:b1:1"}, true},
		},
		"the former disk was clean": {identity: "weak:b2:1", records: []disk.Record{record("weak:b1:1", here, disk.Clean, 7)}},
		"the disk of the record is here, at another path": {
			identity: "weak:b1:2", records: []disk.Record{record("weak:b1:1", here, disk.Published, 7)}, present: []disk.Identity{"weak:b1:1"},
		},
		"two records of the path: both, the later one first": {
			identity: "weak:b3:1", records: []disk.Record{record("weak:b1:1", here, disk.Published, 7), record("weak:b2:1", here, disk.Cleaning, 9)},
			want: answer{[]disk.Identity{"weak:b2:1", "weak:b1:1"}, true},
		},
		"a driver begins to report serial numbers": {
			identity: "serial:m:1", records: []disk.Record{record("weak:b1:1", here, disk.Cleaning, 7)}, want: answer{[]disk.Identity{"weak:b1:1"}, true},
		},
		"a driver no longer reports serial numbers": {
			identity: "weak:b2:1", records: []disk.Record{record("serial:m:1", here, disk.Cleaning, 7)}, want: answer{[]disk.Identity{"serial:m:1"}, true},
		},
		"another disk, by persistent identities": {
			identity: "serial:m:2", records: []disk.Record{record("serial:m:1", here, disk.Cleaning, 7)},
		},
		"a file system where a device was": {
			identity: "weakfs:b2:1:/", records: []disk.Record{record("weak:b1:1", here, disk.Cleaning, 7)},
		},
		"at another path, after a restart": {
			identity: "weak:b2:1", records: []disk.Record{record("weak:b1:1", there, disk.Cleaning, 7)}, want: answer{nil, true},
		},
		"at another path, without a restart": {
			identity: "weak:b1:2", records: []disk.Record{record("weak:b1:1", there, disk.Cleaning, 7)},
		},
		"at another path, and the disk has a persistent identity": {
			identity: "serial:m:1", records: []disk.Record{record("weak:b1:1", there, disk.Cleaning, 7)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			present := map[disk.Identity]bool{test.identity: true}
			for _, identity := range test.present {
				present[identity] = true
			}
			var at []disk.Record
			var weak []disk.Identity
			for _, r := range test.records {
				if r.HostPath == here {
					at = append(at, r)
				}
				if r.State.Dirty() && r.Identity.Weak() {
					weak = append(weak, r.Identity)
				}
			}
			var got answer
			predecessors, unaccounted := decide.Predecessors(test.identity, at, weak, present)
			got.Unaccounted = unaccounted
			for _, r := range predecessors {
				got.Predecessors = append(got.Predecessors, r.Identity)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
