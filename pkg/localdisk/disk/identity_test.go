// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disk_test

import (
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
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
		"a driver that begins to report serial numbers": {"weak:b1:7:1024", "serial:m:1", disk.Unproven},
		"one file system":                             {"fs:u1:/", "fs:u1:/", disk.Same},
		"two folders of one file system":              {"fs:u1:/a", "fs:u1:/b", disk.Different},
		"memory, mounted again":                       {"mem:b1:70", "mem:b1:71", disk.Different},
		"memory, after a restart":                     {"mem:b1:70", "mem:b2:70", disk.Different},
		"memory where a file system was":              {"fs:u1:/", "mem:b1:70", disk.Different},
		"a device where a file system was":            {"fs:u1:/", "weak:b1:7:1024", disk.Different},
		"a directory made again":                      {"dir:u1:12:1", "dir:u1:13:2", disk.Different},
		"a file system without UUID, after a restart": {"weakfs:b1:7:/", "weakfs:b2:7:/", disk.Unproven},

		"one serial number on one machine":                    {"serial:m:1@m1", "serial:m:1@m1", disk.Same},
		"two serial numbers on one machine":                   {"serial:m:1@m1", "serial:m:2@m1", disk.Different},
		"one serial number on two machines":                   {"serial:m:1@m1", "serial:m:1@m2", disk.Unproven},
		"two serial numbers on two machines":                  {"serial:m:1@m1", "serial:m:2@m2", disk.Different},
		"one name that the kernel makes, on two machines":     {"vendor:nvme.1ae0-1@m1", "vendor:nvme.1ae0-1@m2", disk.Unproven},
		"a name and a serial number":                          {"vendor:t10.A@m1", "serial:m:1@m1", disk.Different},
		"a registered name where a serial number was":         {"serial:m:1@m1", "wwn:naa.5", disk.Unproven},
		"a registered name where LVM was":                     {"dm:LVM-1@m1", "wwn:naa.5", disk.Different},
		"an array where LVM was":                              {"dm:LVM-1@m1", "md:1@m1", disk.Different},
		"one array on two machines":                           {"md:1@m1", "md:1@m2", disk.Unproven},
		"a partition where a disk was":                        {"serial:m:1@m1", "part:serial:m:1:u:0@m1", disk.Different},
		"one partition on two machines":                       {"part:serial:m:1:u:0@m1", "part:serial:m:1:u:0@m2", disk.Unproven},
		"a partition of a registered name where one was not":  {"part:serial:m:1:u:0@m1", "part:wwn:naa.5:u:0", disk.Unproven},
		"one file system of one image on two machines":        {"fs:u1:/@m1", "fs:u1:/@m2", disk.Unproven},
		"two file systems on one machine":                     {"fs:u1:/@m1", "fs:u2:/@m1", disk.Different},
		"one directory of one image on two machines":          {"dir:u1:12:1@m1", "dir:u1:12:1@m2", disk.Unproven},
		"a disk that a stop may discard, in the same boot":    {"serial:m:1@m1/b1", "serial:m:1@m1/b1", disk.Same},
		"a disk that a stop may discard, after a restart":     {"serial:m:1@m1/b1", "serial:m:1@m1/b2", disk.Unproven},
		"the same by a registered name":                       {"nvme:eui.1@m1/b1", "nvme:eui.1@m1/b2", disk.Unproven},
		"a registered name that a stop is known to discard":   {"nvme:eui.1", "nvme:eui.1@m1/b2", disk.Unproven},
		"two disks that a stop may discard":                   {"serial:m:1@m1/b1", "serial:m:2@m1/b2", disk.Different},
		"a disk that a stop may discard, on another machine":  {"serial:m:1@m1/b1", "serial:m:1@m2/b2", disk.Unproven},
		"a serial number that is not reported any more":       {"serial:m:1@m1", "weak:b1:7", disk.Unproven},
		"the same of a disk that a stop may discard":          {"serial:m:1@m1/b1", "weak:b1:7", disk.Unproven},
		"an unknown machine, after a restart":                 {"serial:m:1@/b1", "serial:m:1@/b2", disk.Unproven},
		"a registered name needs no machine":                  {"wwn:naa.5", "wwn:naa.5", disk.Same},
		"memory, where a file system is limited to a machine": {"fs:u1:/@m1", "mem:b1:u1:/", disk.Different},
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

// TestMoved: an identity that is limited to a machine is found again after its mainboard was
// exchanged, and no other is.
func TestMoved(t *testing.T) {
	for name, tc := range map[string]struct {
		was, is disk.Identity
		want    bool
	}{
		"a serial number":               {"serial:m:1@m1", "serial:m:1@m2", true},
		"a file system":                 {"fs:u:/@m1", "fs:u:/@m2", true},
		"another serial number":         {"serial:m:1@m1", "serial:m:2@m2", false},
		"nothing has changed":           {"serial:m:1@m1", "serial:m:1@m1", false},
		"a registered name":             {"wwn:naa.5", "wwn:naa.5", false},
		"what a stop may discard":       {"serial:m:1@m1/b1", "serial:m:1@m2/b2", false},
		"what was limited to a boot":    {"serial:m:1@/b1", "serial:m:1@m2", false},
		"a disk without a name":         {"weak:b1:7", "weak:b2:7", false},
		"an identity without a machine": {"serial:m:1", "serial:m:1@m2", false},
	} {
		if got := tc.was.Moved(tc.is); got != tc.want {
			t.Errorf("%s: moved is %t, want %t", name, got, tc.want)
		}
	}
}

func TestPartOf(t *testing.T) {
	for name, tc := range map[string]struct {
		part, whole disk.Identity
		want        bool
	}{
		"of a registered name":    {"part:wwn:naa.5:u:0", "wwn:naa.5", true},
		"of a serial number":      {"part:serial:m:1:u:0@m1", "serial:m:1@m1", true},
		"of another machine's":    {"part:serial:m:1:u:0@m1", "serial:m:1@m2", false},
		"of another disk":         {"part:serial:m:1:u:0@m1", "serial:m:2@m1", false},
		"of a disk without names": {"weakpart:b1:7:0", "weak:b1:7", true},
		"a folder":                {"fs:u1:/a@m1", "fs:u1:/@m1", true},
		"a folder of a folder":    {"fs:u1:/a/b@m1", "fs:u1:/a@m1", true},
		"a longer name":           {"fs:u1:/ab@m1", "fs:u1:/a@m1", false},
		"itself":                  {"fs:u1:/a@m1", "fs:u1:/a@m1", false},
	} {
		if got := tc.part.PartOf(tc.whole); got != tc.want {
			t.Errorf("%s: part is %t, want %t", name, got, tc.want)
		}
	}
}

func TestAcceptedIdentity(t *testing.T) {
	volume := disk.Volume{Identity: "weak:b1:7:1024", Accepted: "weak:b2:7:1024"}
	if got := volume.Matches("weak:b2:7:1024"); got != disk.Same {
		t.Errorf("a disk that an administrator has accepted is %s", got)
	}
	if got := volume.Matches("weak:b2:8:1024"); got != disk.Unproven {
		t.Errorf("a disk that was not accepted is %s", got)
	}
	volume.Accepted = ""
	if got := volume.Matches(""); got != disk.Unproven {
		t.Errorf("a disk that is not known is %s", got)
	}
}
