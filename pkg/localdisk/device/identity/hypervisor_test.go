// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// fallback is the name that Linux makes of an NVMe namespace without a registered one.
func fallback(vendor, serial, model string) string {
	return "nvme." + vendor + "-" + hex.EncodeToString([]byte(serial)) + "-" + hex.EncodeToString([]byte(model)) + "-00000001\n"
}

// limits are where an identity belongs to one disk only.
type limits struct{ machine, boot bool }

var anywhere, ofMachine, ofBoot, unnamed = limits{}, limits{machine: true}, limits{true, true}, limits{boot: true}

// TestIdentitiesOfPlatforms: two machines of each platform have the same disk in sysfs. Only
// with a registered name is it the same disk, and where a stop may discard the data, it is
// unproven after a restart.
func TestIdentitiesOfPlatforms(t *testing.T) {
	for name, tc := range map[string]struct {
		vendor string // DMI sys_vendor
		below  string // directory in sysfs that the disk is below
		disk   map[string]string
		want   limits
		source string
	}{
		"Google: local SSD": {
			vendor: "Google", disk: map[string]string{"wwid": fallback("1ae0", "nvme_card", "nvme_card"), "device/model": "nvme_card\n", "device/serial": "nvme_card\n"},
			want: ofBoot, source: "vendor",
		},
		"Google: local SSD by its number": {
			vendor: "Google", disk: map[string]string{"wwid": fallback("1ae0", "nvme_card0", "nvme_card0"), "device/model": "nvme_card0\n"},
			want: ofBoot, source: "vendor",
		},
		"Google: SCSI local SSD": {
			vendor: "Google", disk: map[string]string{"device/vendor": "Google  ", "device/model": "EphemeralDisk   ", "device/vpd_pg80": "\x00\x80\x00\x0blocal-ssd-0"},
			want: ofBoot, source: "serial",
		},
		"Google: persistent disk": {
			vendor: "Google", disk: map[string]string{"wwid": fallback("1ae0", "nvme_card-pd", "nvme_card-pd"), "device/model": "nvme_card-pd\n"},
			want: ofMachine, source: "vendor",
		},
		"AWS: instance store": {
			vendor: "Amazon EC2", disk: map[string]string{"wwid": fallback("1d0f", "AWS123456789ABCDEF01", "Amazon EC2 NVMe Instance Storage"), "device/model": "Amazon EC2 NVMe Instance Storage        \n"},
			want: ofBoot, source: "vendor",
		},
		"AWS: instance store that reports a registered name": {
			vendor: "Amazon EC2", disk: map[string]string{"wwid": "eui.0025385b71b00e0a\n", "device/model": "Amazon EC2 NVMe Instance Storage\n"},
			want: ofBoot, source: "nvme",
		},
		"AWS: EBS": {
			vendor: "Amazon EC2", disk: map[string]string{"wwid": fallback("1d0f", "vol0123456789abcdef0", "Amazon Elastic Block Store"), "device/model": "Amazon Elastic Block Store              \n"},
			want: ofMachine, source: "vendor",
		},
		"AWS: a disk that is not known to outlive a stop": {
			vendor: "Amazon EC2", disk: map[string]string{"wwid": fallback("1d0f", "X1", "Some New Disk"), "device/model": "Some New Disk\n"},
			want: ofBoot, source: "vendor",
		},
		"Azure: local NVMe": {
			vendor: "Microsoft Corporation", disk: map[string]string{"wwid": fallback("1414", "a8b4f2c1", "Microsoft NVMe Direct Disk v2"), "device/model": "Microsoft NVMe Direct Disk v2\n"},
			want: ofBoot, source: "vendor",
		},
		"Azure: managed disk by SCSI": {
			vendor: "Microsoft Corporation", below: "VMBUS:00/f8b3781a-1e82-4818-a1c3-63d806ec15bb/host0/target0:0:0/0:0:0:0",
			disk: map[string]string{"device/vendor": "Msft    ", "device/model": "Virtual Disk    ", "device/wwid": "naa.60022480d2a3b4c5d6e7f80910111213\n"},
			want: anywhere, source: "wwn",
		},
		"Azure: temporary disk, generation 2": {
			vendor: "Microsoft Corporation", below: "VMBUS:00/f8b3781a-1e82-4818-a1c3-63d806ec15bb/host0/target0:0:0/0:0:0:1",
			disk: map[string]string{"device/vendor": "Msft    ", "device/model": "Virtual Disk    ", "device/wwid": "naa.60022480d2a3b4c5d6e7f80910111213\n"},
			want: ofBoot, source: "wwn",
		},
		"Azure: temporary disk, generation 1": {
			vendor: "Microsoft Corporation", below: "VMBUS:00/00000000-0001-8899-0000-000000000000/host3/target3:0:1/3:0:1:0",
			disk: map[string]string{"device/vendor": "Msft    ", "device/model": "Virtual Disk    ", "device/wwid": "naa.60022480d2a3b4c5d6e7f80910111213\n"},
			want: ofBoot, source: "wwn",
		},
		"QEMU: SATA": {
			vendor: "QEMU", disk: map[string]string{"device/wwid": "t10.ATA     QEMU HARDDISK                           QM00005             \n", "device/model": "QEMU HARDDISK   "},
			want: ofMachine, source: "vendor",
		},
		"QEMU: virtio with a serial number": {
			vendor: "QEMU", disk: map[string]string{"serial": "vol-0123", "device/vendor": "0x1af4\n"},
			want: ofMachine, source: "serial",
		},
		"QEMU: virtio without": {
			vendor: "QEMU", disk: map[string]string{"serial": "", "device/vendor": "0x1af4\n"},
			want: unnamed, source: "weak",
		},
		"QEMU: NVMe, whose EUI-64 is of no maker": {
			vendor: "QEMU", disk: map[string]string{"wwid": "eui.5254000000000001\n", "device/model": "QEMU NVMe Ctrl\n", "device/serial": "deadbeef\n"},
			want: ofMachine, source: "serial",
		},
		"VirtualBox": {
			vendor: "innotek GmbH", disk: map[string]string{"device/wwid": "t10.ATA     VBOX HARDDISK                           VB1234-56789\n", "device/model": "VBOX HARDDISK   "},
			want: ofMachine, source: "vendor",
		},
		"VMware with disk.EnableUUID": {
			vendor: "VMware, Inc.", disk: map[string]string{"device/vendor": "VMware  ", "device/model": "Virtual disk    ", "device/wwid": "naa.6000c29a1b2c3d4e5f60718293a4b5c6\n"},
			want: anywhere, source: "wwn",
		},
		"VMware without": {
			vendor: "VMware, Inc.", disk: map[string]string{"device/vendor": "VMware  ", "device/model": "Virtual disk    "},
			want: unnamed, source: "weak",
		},
		"a SATA disk": {
			vendor: "Dell Inc.", disk: map[string]string{"device/wwid": "naa.5000c500a1b2c3d4\n", "device/model": "ST16000NM001G   "},
			want: anywhere, source: "wwn",
		},
		"a SATA disk whose maker wrote zeros": {
			vendor: "Dell Inc.", disk: map[string]string{"device/wwid": "naa.5000c50000000000\n", "device/vpd_pg80": "\x00\x80\x00\x04ABCD"},
			want: ofMachine, source: "serial",
		},
		"a SAS disk, IEEE Extended": {
			vendor: "HPE", disk: map[string]string{"device/wwid": "naa.20000025b5a1b2c3\n"},
			want: anywhere, source: "wwn",
		},
		"a logical unit whose name is assigned locally": {
			vendor: "HPE", disk: map[string]string{"device/wwid": "naa.3001405a1b2c3d4e\n"},
			want: ofMachine, source: "vendor",
		},
		"NVMe: EUI-64": {
			vendor: "Dell Inc.", disk: map[string]string{"wwid": "eui.0025385b71b00e0a\n"},
			want: anywhere, source: "nvme",
		},
		"NVMe: NGUID": {
			vendor: "Dell Inc.", disk: map[string]string{"wwid": "eui.36344830526001490025384500000001\n"},
			want: anywhere, source: "nvme",
		},
		"NVMe: UUID": {
			vendor: "Dell Inc.", disk: map[string]string{"wwid": "uuid.6b8b4567-327b-23c6-643c-986966334873\n"},
			want: anywhere, source: "nvme",
		},
		"NVMe: UUID that is all F": {
			vendor: "Dell Inc.", disk: map[string]string{"wwid": "uuid.ffffffff-ffff-ffff-ffff-ffffffffffff\n", "diskseq": "4"},
			want: unnamed, source: "weak",
		},
		"NVMe: EUI-64 without the maker's part": {
			vendor: "Dell Inc.", disk: map[string]string{"wwid": "eui.0025380000000000\n", "device/serial": "S1"},
			want: ofMachine, source: "serial",
		},
		"NVMe: the kernel's name of an empty serial number": {
			vendor: "Dell Inc.", disk: map[string]string{"wwid": fallback("8086", "      ", "DISK")},
			want: unnamed, source: "weak",
		},
		"MMC": {
			vendor: "", disk: map[string]string{"device/serial": "0x1234abcd\n", "device/name": "SD32G\n"},
			want: ofMachine, source: "serial",
		},
		"LVM":  {disk: map[string]string{"dm/uuid": "LVM-abcDEF\n"}, want: ofMachine, source: "dm"},
		"LUKS": {disk: map[string]string{"dm/uuid": "CRYPT-LUKS2-6b8b4567327b23c6643c986966334873-data\n"}, want: ofMachine, source: "dm"},
		"md":   {disk: map[string]string{"md/uuid": "6b8b4567-327b23c6-643c9869-66334873\n"}, want: ofMachine, source: "md"},
	} {
		t.Run(name, func(t *testing.T) {
			identify := func(machine string) disk.Identity {
				if _, ok := tc.disk["diskseq"]; !ok {
					tc.disk["diskseq"] = "3"
				}
				sys := fakeSysBelow(t, tc.below, tc.disk)
				write(t, filepath.Join(sys, dmi, "sys_vendor"), tc.vendor+"\n")
				id, err := Host{Sys: sys, Machine: machine}.OfDevice("8:1")
				if err != nil {
					t.Fatal(err)
				}
				return id
			}
			one, other := identify("m1"), identify("m2")
			if got := (limits{one.Machine() != "", one.Weak()}); got != tc.want || one.Scheme() != tc.source {
				t.Fatalf("%s is limited to %+v, want %+v of scheme %s", one, got, tc.want, tc.source)
			}
			same := one == other
			if want := tc.want == anywhere || tc.source == "weak"; same != want { // weak names the boot, which tests share
				t.Errorf("on two machines it is %s and %s", one, other)
			}
		})
	}
}

// fakeSysBelow is fakeSys with the disk below another path.
func fakeSysBelow(t *testing.T, below string, files map[string]string) string {
	t.Helper()
	sys := fakeSys(t, files, nil)
	if below == "" {
		return sys
	}
	folder := filepath.Join(sys, "devices", below)
	if err := os.MkdirAll(filepath.Join(folder, "block"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(sys, "devices/x/block/sda"), filepath.Join(folder, "block/sda")); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(sys, "dev/block/8:1")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(folder, "block/sda"), link); err != nil {
		t.Fatal(err)
	}
	return sys
}

// TestReadMachine: by the product UUID, and by the machine ID where that is a
// filler or missing.
func TestReadMachine(t *testing.T) {
	const uuid, other, id = "6B8B4567-327B-23C6-643C-986966334873\n", "6b8b4567-327b-23c6-643c-986966334874\n", "3d1219c7c4c5404aaa1f6d2a48adfda4\n"
	machine := func(t *testing.T, product, id string) string {
		t.Helper()
		sys := t.TempDir()
		if product != "" {
			write(t, filepath.Join(sys, dmi, "product_uuid"), product)
		}
		file := filepath.Join(sys, "machine-id")
		if id != "" {
			write(t, file, id)
		}
		found, err := ReadMachine(sys, file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(found, "@/:% ") || found != "" && (len(found) != 16 || strings.Contains(id, found)) {
			t.Fatalf("the machine is %q", found)
		}
		return found
	}
	byID := machine(t, "", id)
	for name, tc := range map[string]struct {
		product, id string
		want        string // "" for one of its own
		none        bool
	}{
		"a product UUID":                       {product: uuid, id: id},
		"the same in small letters":            {product: strings.ToLower(uuid), want: machine(t, uuid, "")},
		"another product UUID, the same image": {product: other, id: id},
		"no product UUID":                      {id: id, want: byID},
		"all zero":                             {product: "00000000-0000-0000-0000-000000000000\n", id: id, want: byID},
		"all F":                                {product: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF\n", id: id, want: byID},
		"a filler":                             {product: "03000200-0400-0500-0006-000700080009\n", id: id, want: byID},
		"a filler in the other byte order":     {product: "00020003-0004-0005-0006-000700080009\n", id: id, want: byID},
		"no UUID":                              {product: "Not Settable\n", id: id, want: byID},
		"neither":                              {none: true},
		"an image before its first boot":       {id: "uninitialized\n", none: true},
		"a machine ID of zeros":                {id: strings.Repeat("0", 32), none: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := machine(t, tc.product, tc.id)
			switch {
			case tc.none && got != "", tc.want != "" && got != tc.want, !tc.none && tc.want == "" && (got == "" || got == byID):
				t.Errorf("the machine is %q", got)
			}
		})
	}
	if machine(t, uuid, id) == machine(t, other, id) {
		t.Error("two machines of one image are one")
	}
}

// TestUnknownMachine: a serial number proves nothing later if the machine
// cannot be distinguished from others.
func TestUnknownMachine(t *testing.T) {
	id, err := Host{Sys: fakeSys(t, map[string]string{"serial": "vol-0123"}, nil)}.OfDevice("8:1")
	if err != nil || !id.Weak() {
		t.Fatalf("%s outlives a restart, error %v", id, err)
	}
}
