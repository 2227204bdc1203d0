// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/test/integration/node"
)

// formattedOnce is a bound volume of a device that was formatted, mounted and unmounted, as
// kubelet does.
func formattedOnce(t *testing.T, n *node.Node, name string) (volume *corev1.PersistentVolume, device string) {
	t.Helper()
	device = n.Attach(n.Image(name+".raw", "64M"))
	n.Link(device, n.PathOf(n.Files, name))
	volume = n.Claim(n.Files, name)
	linked(n, t, volume, device)
	n.Command("mkfs.ext4", "-q", "-F", volume.Spec.Local.Path)
	point := n.Path("kubelet/plugins/kubernetes.io/local-volume/mounts", volume.Name)
	n.Command("mkdir", "-p", point)
	n.Command("mount", volume.Spec.Local.Path, point)
	waitEntry(n, "the file system recorded", func(e stowage.Entry) bool { return e.Volume == volume.Name && e.Filesystem != "" })
	n.Unmount(point)
	if err := os.Remove(point); err != nil { // as kubelet does, whose volume it is until then
		t.Fatal(err)
	}
	linked(n, t, volume, device)
	return volume, device
}

// linked waits until the report shows the device that a volume's link leads to, and checks the
// link; empty is none.
func linked(n *node.Node, t *testing.T, volume *corev1.PersistentVolume, device string) stowage.Entry {
	t.Helper()
	want := stowage.LinkPresent
	if device == "" {
		want = stowage.LinkWithheld
	}
	found := waitEntry(n, "the link "+want, func(e stowage.Entry) bool { return e.Volume == volume.Name && e.Link == want })
	if target, err := os.Readlink(volume.Spec.Local.Path); target != device || err != nil && device != "" {
		t.Errorf("the link of %s leads to %q (%v), want %q", volume.Name, target, err, device)
	}
	return found
}

// waitEntry waits until is accepts an entry of the report.
func waitEntry(n *node.Node, what string, is func(stowage.Entry) bool) (found stowage.Entry) {
	n.WaitReport(what, func(r *stowage.LocalDiskReport) bool {
		i := slices.IndexFunc(r.Status.Entries, is)
		if i >= 0 {
			found = r.Status.Entries[i]
		}
		return i >= 0
	})
	return found
}

// TestFence: kubelet finds the device of a bound volume only while the device is the
// volume's and has the file system that was made on it.
func TestFence(t *testing.T) {
	n := newNode(t)
	n.Start()
	volume, device := formattedOnce(t, n, "disk")
	path := n.PathOf(n.Files, "disk")

	t.Log("The entry leads to a blank disk")
	blankDevice := n.Attach(n.Image("other.raw", "64M"))
	relink(t, blankDevice, path)
	linked(n, t, volume, "")
	relink(t, device, path)
	linked(n, t, volume, device)

	t.Log("The superblock is zeroed")
	super := n.Path("superblock")
	n.Command("dd", "if="+device, "of="+super, "bs=4096", "count=1", "status=none")
	n.Command("dd", "if=/dev/zero", "of="+device, "bs=4096", "count=1", "conv=fsync", "status=none")
	linked(n, t, volume, "")
	n.WaitEntry(n.Files, "disk", stowage.EntryBound, "SignatureLost")
	n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "SignatureLost", "restore the file system's superblock")

	t.Log("The provisioner is restarted, with a link of the previous run")
	n.Stop()
	n.Command("mkdir", "-p", filepath.Dir(volume.Spec.Local.Path))
	n.Link(device, volume.Spec.Local.Path)
	n.Start()
	n.WaitAnswer("/readyz", "ready", func(a node.Answer) bool { return a.Status == http.StatusOK })
	linked(n, t, volume, "")

	t.Log("The superblock is restored")
	n.Command("dd", "if="+super, "of="+device, "bs=4096", "count=1", "conv=fsync", "status=none")
	linked(n, t, volume, device)
	n.WaitEntry(n.Files, "disk", stowage.EntryBound, "")

	t.Log("An administrator gives the file system another UUID")
	n.Command("sh", "-c", "e2fsck -f -y "+device+" >/dev/null 2>&1; test $? -le 1") // required by tune2fs
	n.Command("tune2fs", "-U", "0f0e0d0c-0b0a-4908-8706-050403020100", device)
	linked(n, t, volume, "")
	n.WaitEntry(n.Files, "disk", stowage.EntryBound, "FilesystemChanged")
	annotate(t, n, volume, wellknown.SameFilesystemAnnotation, "ext4:0f0e0d0c-0b0a-4908-8706-050403020100")
	linked(n, t, volume, device)

	t.Log("The claim is deleted")
	n.Release(volume)
	after := n.WaitRepublished(n.Files, "disk", volume)
	waitEntry(n, "the device without a file system", func(e stowage.Entry) bool { // the report follows the volume
		return e.Volume == after.Name && e.State == stowage.EntryAvailable && e.Filesystem == ""
	})
	linked(n, t, after, device)
}

// relink replaces a symlink atomically.
func relink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestFenceOfReattachedDevice: a device is attached again under another name. One without a lasting
// identity is another disk until an administrator accepts it.
func TestFenceOfReattachedDevice(t *testing.T) {
	n := newNode(t)
	n.Start()
	volume, device := formattedOnce(t, n, "disk")
	n.Detach(device)
	other := n.Attach(n.Image("other.raw", "64M")) // under the former name, unless another test takes that
	again := n.Attach(n.Path("images", "disk.raw"))
	linked(n, t, volume, "")
	former := ""
	if other == device {
		former = n.WaitEntry(n.Files, "disk", stowage.EntryReplaced, "Replaced").Identity
	}
	relink(t, again, n.PathOf(n.Files, "disk"))
	found := waitEntry(n, "the disk that was attached again", func(e stowage.Entry) bool { return e.State == stowage.EntryReplaced && e.Identity != former })
	linked(n, t, volume, "")
	annotate(t, n, volume, wellknown.SameDiskAnnotation, found.Identity)
	linked(n, t, volume, again)
}
