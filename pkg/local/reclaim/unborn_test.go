// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package reclaim_test

import (
	"testing"

	"stowage.dev/stowage/pkg/local/disk"
	"stowage.dev/stowage/pkg/local/reclaim"
	"stowage.dev/stowage/pkg/local/slot"
)

// TestNeverKnownToBePublished: between the record and the volume the agent was killed,
// and the data on the disk is what the class wants published.
func TestNeverKnownToBePublished(t *testing.T) {
	for name, test := range map[string]struct {
		existing slot.Existing
		uid      string
		want     slot.Action
	}{
		"its data was to be published: kept":                           {slot.Publish, "", slot.Keep},
		"its data was to be published, and it was: a claim's data now": {slot.Publish, "u1", slot.Wipe},
		"it was empty: a claim's data, if any":                         {slot.Refuse, "", slot.Wipe},
	} {
		t.Run(name, func(t *testing.T) {
			key := disk.Key{Class: "fast", Name: "disk1"}
			got := reclaim.Decide(&slot.Slot{
				Key: key, Configured: true, Looked: true, Existing: test.existing, UsersKnown: true, Asked: true,
				Fact:   &disk.Fact{Key: key, Identity: "wwn:1"},
				Record: &disk.Record{Identity: "wwn:1", State: disk.Published, Policy: disk.Delete, Volume: "v1", UID: test.uid, Generation: 7},
			})
			if got.Do != test.want {
				t.Errorf("%s, want %s", got.Do, test.want)
			}
		})
	}
}
