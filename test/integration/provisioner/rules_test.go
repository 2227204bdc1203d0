// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"

	"stowage.dev/stowage/test/integration/node"
)

// TestRules: disks that a rule selects are published and cleaned as those of a folder, under the
// rights and policies of the manifests. One with data is published when that is acknowledged, one that
// is excluded is not selected, and a free volume is withdrawn when the rules no longer select its disk, unless that
// has acknowledged data.
func TestRules(t *testing.T) {
	n := newNode(t)
	var devices []string
	for i := range 3 {
		devices = append(devices, n.Attach(n.Image(fmt.Sprintf("nvme%d", i), "64M")))
	}
	n.Command("mkfs.ext4", "-q", "-F", devices[1])
	n.Args = append(n.Args, "--host-sys="+node.NVMeTree(t, devices))
	n.Select(n.Files, map[string]any{
		"include": []any{map[string]any{"transport": "nvme", "model": "ACME*"}}, "exclude": []any{map[string]any{"serial": "S2"}},
	})
	n.Start()

	t.Log("A blank disk is published, and one with data is not")
	published := n.WaitPhase(n.Files, node.NVMeSlot(0), corev1.VolumeAvailable)
	if want := localpv.LinkPath(n.Files, published.Name); published.Spec.Local.Path != want {
		t.Errorf("the path is %s, want %s", published.Spec.Local.Path, want)
	}
	found := n.WaitEntry(n.Files, node.NVMeSlot(1), stowage.EntrySkipped, string(disk.NotEmpty))
	if _, err := os.Lstat(n.PathOf(n.Files, node.NVMeSlot(2))); !os.IsNotExist(err) {
		t.Errorf("the excluded disk is linked (%v)", err)
	}

	t.Log("The data of the other is acknowledged")
	if err := n.AnnotateReport(n.Env.Context(), wellknown.PublishRetainedAnnotation, found.Acknowledgement); err != nil {
		t.Fatal(err)
	}
	n.WaitPhase(n.Files, node.NVMeSlot(1), corev1.VolumeAvailable)

	t.Log("The first gets a claim, and is cleaned and published again when that is deleted")
	volume := n.Claim(n.Files, node.NVMeSlot(0))
	waitLink(n, volume, stowage.LinkPresent)
	if target, err := os.Readlink(volume.Spec.Local.Path); target != devices[0] {
		t.Errorf("the link leads to %q (%v), want %s", target, err, devices[0])
	}
	n.Command("mkfs.ext4", "-q", "-F", volume.Spec.Local.Path)

	t.Log("The node restarts, which empties /dev/stowage")
	n.Stop()
	for _, folder := range []string{n.PathOf(n.Files, ""), filepath.Dir(volume.Spec.Local.Path)} {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	n.Start()
	n.WaitAnswer("/readyz", "ready", func(a node.Answer) bool { return a.Status == http.StatusOK })
	n.Env.Wait("the link of the volume", func() bool {
		target, err := os.Readlink(volume.Spec.Local.Path)
		return err == nil && target == devices[0]
	})
	if now := n.Volume(n.Files, node.NVMeSlot(0)); now == nil || now.UID != volume.UID || now.Annotations[wellknown.DiskAnnotation] != "" {
		t.Errorf("the volume is now %v", now)
	}

	n.Release(volume)
	n.WaitRepublished(n.Files, node.NVMeSlot(0), volume)

	t.Log("The rules select another disk only")
	n.Select(n.Files, map[string]any{"include": []any{map[string]any{"serial": "S2"}}})
	n.WaitPhase(n.Files, node.NVMeSlot(2), corev1.VolumeAvailable)
	n.WaitNone(n.Files, node.NVMeSlot(0))
	n.WaitEntry(n.Files, node.NVMeSlot(1), stowage.EntryAvailable, string(disk.NotConfigured))
	n.Env.Wait("the link of the former disk to be removed", func() bool {
		_, err := os.Lstat(n.PathOf(n.Files, node.NVMeSlot(0)))
		return os.IsNotExist(err)
	})
}

// waitLink waits until the report shows the state of a volume's link.
func waitLink(n *node.Node, volume *corev1.PersistentVolume, state string) {
	n.WaitReport("the link "+state, func(r *stowage.LocalDiskReport) bool {
		for i := range r.Status.Entries {
			if e := &r.Status.Entries[i]; e.Volume == volume.Name && e.Link == state {
				return true
			}
		}
		return false
	})
}

// TestFolderToRules: a disk moves from a class with a link in a folder to one with rules, as
// docs/local-disks.md describes: when its claim is gone, and its link. It is not blank then, and needs no proof.
func TestFolderToRules(t *testing.T) {
	n := newNode(t)
	device := n.Attach(n.Image("nvme0", "64M"))
	n.Args = append(n.Args, "--host-sys="+node.NVMeTree(t, []string{device}))
	link := n.PathOf(n.Files, "a")
	n.Link(device, link)
	rules := n.AddClass("rules", nil)
	n.Env.CreateClass(n.Env.Class(rules))
	n.Select(rules, map[string]any{"include": []any{map[string]any{"transport": "nvme"}}})
	n.Start()

	t.Log("The disk belongs to the folder while it has the link")
	n.WaitPhase(n.Files, "a", corev1.VolumeAvailable)
	volume := n.Claim(n.Files, "a")
	waitLink(n, volume, stowage.LinkPresent)
	n.Command("mkfs.ext4", "-q", "-F", volume.Spec.Local.Path)
	n.Release(volume)
	n.WaitRepublished(n.Files, "a", volume)
	if got := n.Published(rules); len(got) > 0 {
		t.Errorf("the rules have %q", got)
	}

	t.Log("The link is removed")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	n.WaitNone(n.Files, "a")
	n.WaitPhase(rules, node.NVMeSlot(0), corev1.VolumeAvailable)
}

// TestClassGetsRules: a class that had a folder gets rules that select the disks of its volumes, one of
// which is mounted. They keep their disks, and the link of the first is never removed.
func TestClassGetsRules(t *testing.T) {
	n := newNode(t)
	devices := []string{n.Attach(n.Image("nvme0", "64M")), n.Attach(n.Image("nvme1", "64M"))}
	n.Args = append(n.Args, "--host-sys="+node.NVMeTree(t, devices))
	n.Link(devices[0], n.PathOf(n.Files, "a"))
	n.Link(devices[1], n.PathOf(n.Files, "b"))
	n.Start()
	free := n.WaitPhase(n.Files, "b", corev1.VolumeAvailable)
	volume := n.Claim(n.Files, "a")
	waitLink(n, volume, stowage.LinkPresent)
	link := volume.Spec.Local.Path
	n.Command("mkfs.ext4", "-q", "-F", link)
	point := n.Path("kubelet/plugins/kubernetes.io/local-volume/mounts", volume.Name)
	n.Command("mkdir", "-p", point)
	n.Command("mount", link, point)
	t.Cleanup(func() { _ = unix.Unmount(point, 0) })
	before, err := os.Lstat(link)
	if err != nil {
		t.Fatal(err)
	}

	n.Select(n.Files, map[string]any{"include": []any{map[string]any{"transport": "nvme"}}})
	for i, want := range []*corev1.PersistentVolume{volume, free} {
		now := n.WaitVolume(n.Files, node.NVMeSlot(i), "the volume of disk "+devices[i], func(pv *corev1.PersistentVolume) bool { return pv != nil })
		if now.UID != want.UID || now.DeletionTimestamp != nil {
			t.Errorf("%s has volume %s, want %s", devices[i], now.Name, want.Name)
		}
	}
	n.WaitEntry(n.Files, node.NVMeSlot(0), stowage.EntryBound, "")
	n.WaitEntry(n.Files, node.NVMeSlot(1), stowage.EntryAvailable, "")
	if after, err := os.Lstat(link); err != nil || !os.SameFile(before, after) {
		t.Errorf("the link was removed or replaced (%v)", err)
	}

	t.Log("The provisioner restarts, which removes links until the devices are proven")
	n.Stop()
	n.Start()
	n.Env.Wait("the link of the volume", func() bool {
		target, err := os.Readlink(link)
		return err == nil && target == devices[0]
	})

	t.Log("The claim is deleted")
	n.Unmount(point)
	if err := os.Remove(point); err != nil {
		t.Fatal(err)
	}
	n.Release(volume)
	n.WaitRepublished(n.Files, node.NVMeSlot(0), volume)
}
