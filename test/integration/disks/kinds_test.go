// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/integration/node"
)

// TestKinds: every kind of entry of one directory that can be a volume is published.
func TestKinds(t *testing.T) {
	n := newNode(t)
	n.Set(n.Files, "allowDirectories", true)
	n.Set(n.Files, "directoryPattern", "plain-*")
	n.Mount("ext4", "64M")
	n.Tmpfs("tmpfs", "16M")
	mountXFS(n, "xfs")
	keepEmpty(t, n.Path("elsewhere", "data"))
	n.Bind(n.Path("elsewhere", "data"), n.PathOf(n.Files, "bind"))
	mknod(t, n.Attach(n.Image("node.raw", "32M")), n.PathOf(n.Files, "node"))
	n.Link(n.Attach(n.Image("link.raw", "16M")), n.PathOf(n.Files, "link"))
	keepEmpty(t, n.PathOf(n.Files, "plain-1"))
	keepEmpty(t, n.PathOf(n.Files, "other"))
	n.Device("raw", "16M")
	n.Start()

	bytes := map[string]int64{"ext4": 0, "tmpfs": 16 << 20, "xfs": 0, "bind": 0, "node": 32 << 20, "link": 16 << 20, "plain-1": 0}
	for name, want := range bytes {
		volume := n.WaitPhase(n.Files, name, corev1.VolumeAvailable)
		checkVolume(t, n, volume, corev1.PersistentVolumeFilesystem)
		if got := volume.Spec.Capacity.Storage().Value(); got <= 0 || want > 0 && got != want {
			t.Errorf("%s has %d bytes, want %d", name, got, want)
		}
	}
	checkVolume(t, n, n.WaitPhase(n.Blocks, "raw", corev1.VolumeAvailable), corev1.PersistentVolumeBlock)
	n.WaitEntry(n.Files, "other", stowage.EntrySkipped, "NotMountPoint")
	kinds := map[string]string{"ext4": "Mount", "tmpfs": "Mount", "xfs": "Mount", "bind": "Mount", "node": "Device", "link": "Device", "plain-1": "Directory"}
	n.WaitReport("complete", func(r *stowage.LocalDiskReport) bool {
		found := map[string]string{}
		for _, entry := range r.Status.Entries {
			if entry.State == stowage.EntryAvailable && entry.Class == n.Files {
				found[entry.Name] = entry.Kind
			}
		}
		return cmp.Equal(found, kinds)
	})
}

func checkVolume(t *testing.T, n *node.Node, volume *corev1.PersistentVolume, mode corev1.PersistentVolumeMode) {
	t.Helper()
	spec := volume.Spec
	if *spec.VolumeMode != mode || spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("volume of %s has mode %s and policy %s", spec.Local.Path, *spec.VolumeMode, spec.PersistentVolumeReclaimPolicy)
	}
	if diff := cmp.Diff([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, spec.AccessModes); diff != "" {
		t.Error(diff)
	}
	want := []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{n.Name}}}
	if diff := cmp.Diff(want, spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions); diff != "" {
		t.Error(diff)
	}
}

// mountXFS mounts a new XFS as a slot of class Files. Its minimum size is 300 MB.
func mountXFS(n *node.Node, name string) {
	image := n.Image(name+".xfs", "320M")
	n.Command("mkfs.xfs", "-q", image)
	n.MountAt(image, n.PathOf(n.Files, name))
}

// keepEmpty makes an empty folder.
func keepEmpty(t *testing.T, folder string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
}

// mknod makes a second node of a device.
func mknod(t *testing.T, device, path string) {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(device, &stat); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(stat.Rdev)); err != nil {
		t.Fatal(err)
	}
}

// TestFoundLater: a disk that is added while the provisioner runs is found.
func TestFoundLater(t *testing.T) {
	n := newNode(t)
	late := n.AddClass("late", nil)
	n.Env.CreateClass(n.Env.Class(late).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	missing := n.AddClass("missing", nil)
	if err := os.Remove(n.PathOf(late, "")); err != nil {
		t.Fatal(err)
	}
	keepEmpty(t, n.PathOf(n.Files, "expected"))
	n.Link(n.Attach(n.Image("classless.raw", "16M")), n.PathOf(missing, "disk"))
	n.Start()

	n.WaitEntry(n.Files, "expected", stowage.EntrySkipped, "NotMountPoint")
	n.Mount("expected", "32M")
	n.WaitPhase(n.Files, "expected", corev1.VolumeAvailable)

	n.Mount("new", "32M")
	n.WaitPhase(n.Files, "new", corev1.VolumeAvailable)
	n.Device("new", "16M")
	n.WaitPhase(n.Blocks, "new", corev1.VolumeAvailable)

	keepEmpty(t, n.PathOf(late, ""))
	n.Link(n.Attach(n.Image("late.raw", "16M")), n.PathOf(late, "disk"))
	n.WaitPhase(late, "disk", corev1.VolumeAvailable)

	n.WaitEntry(missing, "disk", stowage.EntryPending, "StorageClassMissing")
	n.Env.CreateClass(n.Env.Class(missing).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	n.WaitPhase(missing, "disk", corev1.VolumeAvailable)
}

// TestFirstMount: the provisioner waits for a file system of fstab, and never publishes the plain
// directory at its mount point.
func TestFirstMount(t *testing.T) {
	n := newNode(t)
	n.Set(n.Files, "allowDirectories", true)
	n.Set(n.Files, "directoryPattern", "*")
	keepEmpty(t, n.PathOf(n.Files, "promised"))
	line := "UUID=none " + n.PathOf(n.Files, "promised") + " ext4 defaults 0 2\n"
	if err := os.WriteFile(n.Path("fstab"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Start()
	n.WaitEntry(n.Files, "promised", stowage.EntrySkipped, "MountMissing")
	n.Mount("promised", "32M")
	volume := n.WaitPhase(n.Files, "promised", corev1.VolumeAvailable)
	if filepath.Base(volume.Spec.Local.Path) != "promised" {
		t.Errorf("the volume's path is %s", volume.Spec.Local.Path)
	}
	n.Unmount(n.PathOf(n.Files, "promised"))
	n.WaitNone(n.Files, "promised")
	fence(n, "1")
	if names := n.Published(n.Files); !cmp.Equal(names, []string{"fence-1"}) {
		t.Errorf("unexpected volumes of %q", names)
	}
}
