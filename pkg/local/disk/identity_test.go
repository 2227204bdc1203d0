// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk_test

import (
	"testing"

	"stowage.dev/stowage/pkg/local/disk"
)

func TestCompare(t *testing.T) {
	for name, test := range map[string]struct {
		a, b disk.Identity
		want disk.Match
	}{
		"one WWN":                           {"wwn:0x5000", "wwn:0x5000", disk.Same},
		"two WWNs":                          {"wwn:0x5000", "wwn:0x5001", disk.Different},
		"not known":                         {"", "wwn:0x5000", disk.Unproven},
		"neither known":                     {"", "", disk.Unproven},
		"one loop device":                   {"weak:b1:7:1024", "weak:b1:7:1024", disk.Same},
		"attached again in the same boot":   {"weak:b1:7:1024", "weak:b1:8:1024", disk.Different},
		"no serial number, after a restart": {"weak:b1:7:1024", "weak:b2:7:1024", disk.Unproven},
		"a driver that has learnt to tell serial numbers": {"weak:b1:7:1024", "serial:m:1", disk.Unproven},
		"one file system":                             {"fs:u1:/", "fs:u1:/", disk.Same},
		"two folders of one file system":              {"fs:u1:/a", "fs:u1:/b", disk.Different},
		"memory, mounted again":                       {"mem:b1:70", "mem:b1:71", disk.Different},
		"memory, after a restart":                     {"mem:b1:70", "mem:b2:70", disk.Different},
		"memory where a file system was":              {"fs:u1:/", "mem:b1:70", disk.Different},
		"a device where a file system was":            {"fs:u1:/", "weak:b1:7:1024", disk.Different},
		"a directory made again":                      {"dir:u1:12:1", "dir:u1:13:2", disk.Different},
		"a file system without UUID, after a restart": {"weakfs:b1:7:/", "weakfs:b2:7:/", disk.Unproven},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.a.Compare(test.b); got != test.want {
				t.Errorf("%s and %s are %s, want %s", test.a, test.b, got, test.want)
			}
			if got := test.b.Compare(test.a); got != test.want {
				t.Errorf("the other way round they are %s, want %s", got, test.want)
			}
		})
	}
}

func TestAcceptedIdentity(t *testing.T) {
	volume := disk.Volume{Identity: "weak:b1:7:1024", Accepted: "weak:b2:7:1024"}
	if got := volume.Matches("weak:b2:7:1024"); got != disk.Same {
		t.Errorf("a disk that an administrator has accepted is %s", got)
	}
	if got := volume.Matches("weak:b2:8:1024"); got != disk.Unproven {
		t.Errorf("a disk that nobody has accepted is %s", got)
	}
	volume.Accepted = ""
	if got := volume.Matches(""); got != disk.Unproven {
		t.Errorf("a disk that is not known is %s", got)
	}
}
