// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// page83 is a page of names: a target's NAA name, a t10 name, and the unit's NAA name.
var page83 = string([]byte{0, 0x83, 0, 4 + 8 + 4 + 6 + 4 + 8,
	1, 0x93, 0, 8, 0x50, 0, 0xc5, 0, 1, 1, 1, 1,
	2, 0x01, 0, 6, 'A', 'C', 'M', 'E', ' ', '1',
	1, 0x03, 0, 8, 0x50, 0, 0xc5, 0, 0xa1, 0xb2, 0xc3, 0xd4})

func TestOfDevice(t *testing.T) {
	boot, err := sysfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		disk      map[string]string
		partition map[string]string
		want      disk.Identity
		wantErr   string
	}{
		"NVMe: the namespace's name": {
			disk: map[string]string{"wwid": "eui.0025385b71b00e0a\n", "device/serial": "S1 \n"},
			want: "nvme:eui.0025385b71b00e0a",
		},
		"NVMe whose name is all zeros is identified by the controller's serial number": {
			disk: map[string]string{"wwid": "eui.0000000000000000\n", "device/serial": "S4X9 \n", "device/model": "ACME 970  "},
			want: "serial:ACME%20970:S4X9@m1",
		},
		"SAS: the World Wide Name": {
			disk: map[string]string{"device/wwid": "naa.5000c500a1b2c3d4\n", "device/vpd_pg80": "\x00\x80\x00\x04ABCD"},
			want: "wwn:naa.5000c500a1b2c3d4",
		},
		"SATA without a World Wide Name: the kernel makes one of model and serial number": {
			disk: map[string]string{"device/wwid": "t10.ATA     QEMU HARDDISK      QM:0001\n"},
			want: "vendor:t10.ATA%20QEMU%20HARDDISK%20QM%3A0001@m1",
		},
		"an old kernel: the name is taken from page 0x83, the unit's own before the target's": {
			disk: map[string]string{"device/vpd_pg83": page83},
			want: "wwn:naa.5000c500a1b2c3d4",
		},
		"a page that ends too early names nothing": {
			disk: map[string]string{"device/vpd_pg83": page83[:20], "device/vpd_pg80": "\x00\x80\x00\x06 AB1D ", "device/vendor": "ACME    ", "device/model": "Disk"},
			want: "serial:ACME%20Disk:AB1D@m1",
		},
		"virtio: the serial number": {
			disk: map[string]string{"serial": "vol-0123"},
			want: "serial::vol-0123@m1",
		},
		"an eMMC's boot area is another disk, with the same serial number": {
			disk: map[string]string{"name": "mmcblk0boot0", "device/serial": "0x1234", "diskseq": "4"},
			want: "weak:" + disk.Identity(boot) + ":4",
		},
		"LVM: the names of group and volume": {
			disk: map[string]string{"dm/uuid": "LVM-abcDEF\n", "diskseq": "4"},
			want: "dm:LVM-abcDEF@m1",
		},
		"a mapped device with a name that may be reused": {
			disk: map[string]string{"dm/uuid": "mine\n", "diskseq": "4"},
			want: "weak:" + disk.Identity(boot) + ":4",
		},
		"md: the array's UUID": {
			disk: map[string]string{"dm/uuid": "\n", "md/uuid": "6b8b4567-327b23c6-643c9869-66334873\n"},
			want: "md:6b8b4567-327b23c6-643c9869-66334873@m1",
		},
		"only a diskseq": {
			disk: map[string]string{"diskseq": "11\n", "serial": "", "device/serial": "0000000000\n"},
			want: "weak:" + disk.Identity(boot) + ":11",
		},
		"no diskseq either": {
			disk:    map[string]string{},
			wantErr: "before 5.15",
		},
		"a partition of a disk with a name": {
			disk:      map[string]string{"device/wwid": "naa.5000c500a1b2c3d4\n"},
			partition: map[string]string{"partition": "1\n", "start": "2048\n", "uevent": "MAJOR=8\nPARTN=1\nPARTUUID=C0FFEE-01\n"},
			want:      "part:wwn:naa.5000c500a1b2c3d4:c0ffee-01:1048576",
		},
		"a partition without PARTUUID": {
			disk:      map[string]string{"serial": "vol-0123"},
			partition: map[string]string{"partition": "1\n", "start": "0\n", "uevent": "MAJOR=8\n"},
			want:      "part:serial::vol-0123::0@m1",
		},
		"a partition of a disk without a name": {
			disk:      map[string]string{"diskseq": "7\n"},
			partition: map[string]string{"partition": "1\n", "start": "2048\n", "uevent": "PARTUUID=c0ffee-01\n"},
			want:      "weakpart:" + disk.Identity(boot) + ":7:1048576",
		},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Host{Sys: fakeSys(t, s.disk, s.partition), Machine: "m1"}.OfDevice("8:1")
			if s.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), s.wantErr) {
					t.Fatalf("got %q, error %v; want an error with %q", got, err, s.wantErr)
				}
				return
			}
			if err != nil || got != s.want {
				t.Fatalf("got %q, error %v; want %q", got, err, s.want)
			}
		})
	}
}

// fakeSys makes a sysfs in which 8:1 is a disk, or a partition of one.
func fakeSys(t *testing.T, disk, partition map[string]string) string {
	t.Helper()
	sys := t.TempDir()
	name := "sda"
	if n, ok := disk["name"]; ok {
		name = n
	}
	folder := filepath.Join(sys, "devices/x/block", name)
	target := folder
	write(t, filepath.Join(folder, "size"), "2048\n")
	for file, content := range disk {
		write(t, filepath.Join(folder, file), content)
	}
	if partition != nil {
		target = filepath.Join(folder, "sda1")
		write(t, filepath.Join(target, "size"), "2048\n")
		for file, content := range partition {
			write(t, filepath.Join(target, file), content)
		}
	}
	if err := os.MkdirAll(filepath.Join(sys, "dev/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(sys, "dev/block/8:1")); err != nil {
		t.Fatal(err)
	}
	return sys
}

func TestOfDeviceRejects(t *testing.T) {
	for name, device := range map[string]string{
		"a folder":                "/",
		"a character device":      "/dev/null",
		"nothing":                 "/dev/no/such/device",
		"no number":               "8",
		"a number and more":       "8:1:2",
		"a number that is a path": "8:../..",
		"an unused number":        "4095:77",
		"empty":                   "",
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := here.OfDevice(device); err == nil {
				t.Fatalf("%s is %s", device, id)
			}
		})
	}
}

func TestReattachedLoopDevice(t *testing.T) {
	needs(t, "losetup", "truncate", "mkfs.ext4")
	file := sparse(t, "16M")
	device, detach := attached(t, file)
	first, err := here.OfDevice(numberOf(t, device))
	if err != nil {
		t.Fatal(err)
	}
	if !first.Weak() {
		t.Fatalf("%s: a loop device has no number of its own", first)
	}
	run(t, "mkfs.ext4", "-q", device)
	if again, err := here.OfDevice(numberOf(t, device)); err != nil || again != first {
		t.Fatalf("with a file system on it: %s, %v; was %s", again, err, first)
	}
	detach()
	second, err := here.OfDevice(numberOf(t, attach(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	if got := first.Compare(second); got != disk.Different {
		t.Fatalf("%s, then %s: %s", first, second, got)
	}
}
