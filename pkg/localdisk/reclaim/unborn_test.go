// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package reclaim_test

import (
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/reclaim"
	"stowage.dev/stowage/pkg/localdisk/slot"
)

// TestNeverKnownToBePublished: between the record and the volume the provisioner was
// killed. What is on the disk is nothing, or what existingData wants published.
func TestNeverKnownToBePublished(t *testing.T) {
	for name, test := range map[string]struct {
		existing slot.Existing
		content  disk.Content
		want     slot.Action
	}{
		"not inspected: nothing is wiped":        {slot.Refuse, disk.ContentUnknown, slot.Inspect},
		"empty: published again":                 {slot.Refuse, disk.ContentNone, slot.MarkClean},
		"with data that was to be published":     {slot.Publish, disk.ContentSome, slot.MarkRetained},
		"with data of which nothing is known":    {slot.Refuse, disk.ContentSome, slot.MarkRetained},
		"with data, and unknown data is removed": {slot.Clean, disk.ContentSome, slot.MarkRetained},
	} {
		t.Run(name, func(t *testing.T) {
			key := disk.Key{Class: "fast", Name: "disk1"}
			got := reclaim.Decide(&slot.Slot{
				Key: key, Configured: true, Looked: true, Existing: test.existing, Content: test.content, UsersKnown: true, Asked: true,
				Fact:   &disk.Fact{Key: key, Identity: "wwn:1"},
				Record: &disk.Record{Identity: "wwn:1", State: disk.Published, Policy: disk.Delete, Volume: "v1", Generation: 7},
			})
			if got.Do != test.want {
				t.Errorf("%s, want %s", got.Do, test.want)
			}
		})
	}
}
