// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import "testing"

// TestReaches: the loop device itself reports what it is attached to. Its path in sysfs is
// unknown.
func TestReaches(t *testing.T) {
	w := newFakeNode(t)
	w.mount("8:33", "/", "/mnt/disks/b", "ext4 /dev/sdc1")
	w.mount("0:44", "/", "/mnt/disks/c", "btrfs /dev/sdb")
	w.loop("loop0", "7:0", "/nowhere")
	s := w.survey()
	for name, test := range map[string]struct {
		place        string
		device, file number
		want         bool
	}{
		"a file of the file system":        {"fs:8:33:/", number{}, number{8, 33}, true},
		"a file of another":                {"fs:8:33:/", number{}, number{8, 1}, false},
		"the file system's device":         {"fs:8:33:/", number{8, 33}, number{}, true},
		"the device":                       {"dev:8:33", number{8, 33}, number{}, true},
		"another device":                   {"dev:8:33", number{8, 16}, number{}, false},
		"detached: not of the file system": {"fs:8:33:/", number{}, number{}, false},
		"detached: not of btrfs":           {"fs:0:44:/", number{}, number{}, false},
		"detached: not of the device":      {"dev:8:33", number{}, number{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := s.target(test.place)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.reaches(target, s.loops[0], test.device, test.file); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
