// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCleanerCommand: the names of methods, and the commands that are run.
func TestCleanerCommand(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		`[fs-reset]`:                      {"fs-reset"},
		`[zero]`:                          {"zero"},
		`[blkdiscard]`:                    {"blkdiscard"},
		`[dd-zero]`:                       {"dd-zero", "1"},
		`[dd-zero, "2"]`:                  {"dd-zero", "2"},
		`[dd-zero, 2]`:                    {"dd-zero", "2"},
		`[shred]`:                         {"shred", "3"},
		`[shred, "1"]`:                    {"shred", "1"},
		`[hdparm]`:                        {"hdparm"},
		`[/scripts/quick_reset.sh]`:       {"fs-reset"},
		`[/scripts/blkdiscard.sh]`:        {"blkdiscard"},
		`[/scripts/dd_zero.sh]`:           {"dd-zero", "1"},
		`[/scripts/dd_zero.sh, "2"]`:      {"dd-zero", "2"},
		`[/scripts/shred.sh]`:             {"shred", "3"},
		`[/scripts/shred.sh, "7"]`:        {"shred", "7"},
		`[/opt/wipe]`:                     {"/opt/wipe"},
		`[/opt/wipe, --passes, 3, ""]`:    {"/opt/wipe", "--passes", "3", ""},
		`["/bin/sh", "-c", "one\ntwo\t"]`: {"/bin/sh", "-c", "one\ntwo\t"},
	}
	for command, want := range tests {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			config, err := Decode(classMap("fast: {hostDir: /mnt/fast, blockCleanerCommand: " + command + "}"))
			if err != nil {
				t.Fatal(err)
			}
			got := config.Classes["fast"].BlockCleanerCommand
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
