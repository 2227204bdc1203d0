// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk_test

import (
	"testing"
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestAttachmentContinue(t *testing.T) {
	now := time.Unix(0, 42)
	for name, test := range map[string]struct {
		found, last, want disk.Attachment
	}{
		"not known":                            {"", "b1/mount:1", ""},
		"a number that is never reused":        {"b1/mount:1", "b1/mount:1", "b1/mount:1"},
		"a device, attached again":             {"b1/diskseq:8", "b1/diskseq:7", "b1/diskseq:8"},
		"a mount ID, seen for the first time":  {"b1/mount-id:7", "", "b1/mount-id:7/42"},
		"a mount ID, seen before":              {"b1/mount-id:7", "b1/mount-id:7/41", "b1/mount-id:7/41"},
		"another ID with the same first digit": {"b1/mount-id:7", "b1/mount-id:70/41", "b1/mount-id:7/42"},
		"the same one in another boot":         {"b2/mount-id:7", "b1/mount-id:7/41", "b2/mount-id:7/42"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.found.Continue(test.last, now); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
