// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/testing/sysfstree"
)

// NVMeTree returns a sysfs in which loop devices are NVMe disks, since rules select no loop
// devices. The counters are those of the loop devices.
func NVMeTree(t *testing.T, devices []string) string {
	t.Helper()
	var archive txtar.Archive
	counters := map[string]string{}
	for i, device := range devices {
		var st unix.Stat_t
		if err := unix.Stat(device, &st); err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(device)
		folder := fmt.Sprintf("sys/devices/pci0000:00/0000:00:1d.0/0000:3d:00.%d/nvme/nvme%d/%s/", i, i, base)
		for name, text := range map[string]string{
			"dev": fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), "size": strconv.Itoa(64 << 20 / 512), "ro": "0", "removable": "0",
			"queue/rotational": "0", "queue/iostats": "1", "diskseq": strconv.Itoa(100 + i),
			"wwid": fmt.Sprintf("eui.0025385b71b0000%d", i), "device/model": "ACME NVMe", "device/serial": fmt.Sprintf("S%d", i),
		} {
			archive.Files = append(archive.Files, txtar.File{Name: folder + name, Data: []byte(text + "\n")})
		}
		counters[folder+"stat"] = filepath.Join("/sys/class/block", base, "stat")
	}
	root := sysfstree.Unpack(t, &archive)
	for name, counter := range counters {
		if err := os.Symlink(counter, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "sys")
}

// NVMeSlot is the slot of NVMe disk i.
func NVMeSlot(i int) string {
	return decide.SlotName(disk.Identity(fmt.Sprintf("nvme:eui.0025385b71b0000%d", i)))
}
