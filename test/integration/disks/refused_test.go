// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/integration/node"
)

// TestRefusedDevices: a device that the node uses, or that another path leads to, is
// not published.
func TestRefusedDevices(t *testing.T) {
	n := newNode(t)
	n.Set(n.Blocks, "existingData", "Publish") // nothing but its use speaks against a disk
	image := n.Image("mounted.raw", "16M")
	n.Command("mkfs.ext4", "-q", image)
	mounted := n.Attach(image)
	mountAside(n, mounted, n.Path("aside"))
	n.Link(mounted, n.PathOf(n.Blocks, "mounted"))
	swapOn(n, n.Device("swap", "16M"))
	if root := rootDisk(t); root != "" {
		n.Link(root, n.PathOf(n.Blocks, "root"))
	}
	twin := n.Device("twin", "16M")
	n.Link(twin, n.PathOf(n.Blocks, "twin-2"))
	mknod(t, twin, n.PathOf(n.Blocks, "twin-3"))
	n.Link(twin, n.PathOf(n.Files, "twin-4"))
	backing := n.Device("backing", "16M")
	n.Attach(backing)
	held, err := unix.Open(n.Device("held", "16M"), unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0) // as ZFS, LIO and DRBD do
	if err != nil {
		t.Fatal(err)
	}
	n.Start()

	n.WaitEntry(n.Blocks, "mounted", stowage.EntrySkipped, "InUse")
	n.WaitEntry(n.Blocks, "swap", stowage.EntrySkipped, "InUse")
	n.WaitEntry(n.Blocks, "backing", stowage.EntrySkipped, "InUse")
	if rootDisk(t) != "" {
		n.WaitEntry(n.Blocks, "root", stowage.EntrySkipped, "InUse")
	}
	n.WaitReport("of one path to each disk", func(r *stowage.LocalDiskReport) bool {
		free, same := 0, 0
		for _, entry := range r.Status.Entries {
			if strings.HasPrefix(entry.Name, "twin") && entry.State == stowage.EntryAvailable {
				free++
			}
			if strings.HasPrefix(entry.Name, "twin") && entry.Reason == "SameBytes" {
				same++
			}
		}
		return free == 1 && same == 3
	})
	fence(n, "1")
	n.WaitEntry(n.Blocks, "held", stowage.EntrySkipped, "InUse")
	if all := append(n.Published(n.Blocks), n.Published(n.Files)...); len(all) != 2 {
		t.Errorf("volumes are published of %q, want one twin and the fence", all)
	}
	if err := unix.Close(held); err != nil {
		t.Fatal(err)
	}
	n.WaitPhase(n.Blocks, "held", corev1.VolumeAvailable)
}

// mountAside mounts a device, or a path, outside the discovery directories.
func mountAside(n *node.Node, what, path string) {
	n.Bind(n.Path("images"), path) // which creates the folder, to be unmounted
	n.Unmount(path)
	n.Command("mount", what, path)
}

// swapOn uses a device as swap.
func swapOn(n *node.Node, device string) (swapOff func()) {
	n.Command("mkswap", device)
	on := true
	swapOff = func() {
		if on {
			on = false
			_ = exec.Command("swapoff", device).Run()
		}
	}
	n.Env.T.Cleanup(swapOff)
	n.Command("swapon", "--priority=0", device)
	return swapOff
}

// rootDisk is the device of the root file system; empty if there is none, as in a
// container.
func rootDisk(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("findmnt", "--noheadings", "--output=SOURCE", "/").Output()
	device := strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(device, "/dev/") {
		t.Logf("the root file system is on no device here: %q %v", device, err)
		return ""
	}
	return device
}

// TestRefusedPaths: what leads out of the discovery directory, or to it, is not
// published, and is not touched.
func TestRefusedPaths(t *testing.T) {
	n := newNode(t)
	n.Set(n.Files, "existingData", "Clean")
	n.Set(n.Files, "allowDirectories", true)
	n.Set(n.Files, "directoryPattern", "plain*")
	keep(t, n.Path("outside", "data"))
	n.Link("../outside/data", n.PathOf(n.Files, "up"))
	n.Link(n.Path("outside", "data"), n.PathOf(n.Files, "plain-link"))
	n.Link(".", n.PathOf(n.Files, "here"))
	n.Link("..", n.PathOf(n.Files, "above"))
	n.Bind(n.Path("files"), n.PathOf(n.Files, "self"))
	n.Bind(n.Folder, n.PathOf(n.Files, "parent"))
	n.Bind(n.Path("blocks"), n.PathOf(n.Files, "sibling"))
	keep(t, n.Path("files-other", "disk"))
	n.Start()
	for name, reason := range map[string]string{
		"up": "OutsideDirectory", "plain-link": "OutsideDirectory", "here": "OutsideDirectory", "above": "OutsideDirectory",
		"self": "DiscoveryDirectory", "parent": "DiscoveryDirectory", "sibling": "DiscoveryDirectory",
	} {
		n.WaitEntry(n.Files, name, stowage.EntrySkipped, reason)
	}
	fence(n, "1")
	if names := n.Published(n.Files); !cmp.Equal(names, []string{"fence-1"}) {
		t.Errorf("unexpected volumes of %q", names)
	}
	untouched(t, n.Path("outside", "data"))
	untouched(t, n.Path("files-other", "disk"))
}

// TestForgedVolumes: volumes that an administrator has created in the provisioner's name, with
// paths that are not those of slots, are not cleaned.
func TestForgedVolumes(t *testing.T) {
	n := newNode(t)
	n.Mount("disk", "32M")
	keep(t, n.PathOf(n.Files, "disk/inner"))
	n.Set(n.Files, "existingData", "Publish")
	paths := map[string]string{
		"twin": n.Path("files-other", "disk"), "directory": n.Path("files"), "parent": n.Folder,
		"inner": n.PathOf(n.Files, "disk/inner"), "plain": n.PathOf(n.Files, "plain"),
	}
	for _, path := range paths {
		keep(t, path)
	}
	n.Start()
	n.WaitPhase(n.Files, "disk", corev1.VolumeAvailable)
	for name, path := range paths {
		forge(n, name, path)
	}
	if err := tryForge(n, "dots", n.Path("files", "..", "files-other", "disk")); err != nil {
		t.Fatal(err)
	} else if err := tryForge(n, "dots-2", n.Folder+"/files/../files-other/disk"); err == nil {
		t.Error("the API server accepts a path with ..")
	}
	for _, name := range []string{"twin", "inner", "parent", "directory", "plain", "dots"} {
		n.Env.WaitPV(name, "Released", func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeReleased })
	}
	fence(n, "1")
	for name, path := range paths {
		untouched(t, path)
		if n.Env.SeenPV(name) == nil {
			t.Errorf("volume %s is deleted", name)
		}
		n.Delete(n.Env.SeenPV(name))
	}
	fence(n, "2")
	for _, path := range paths {
		untouched(t, path)
	}
	if _, err := os.Stat(filepath.Join(n.PathOf(n.Files, "disk"), "inner")); err != nil {
		t.Error(err)
	}
}
