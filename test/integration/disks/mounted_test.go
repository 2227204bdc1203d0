// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/integration/node"
)

// newMountingNode is a node whose class Files has file systems that the provisioner makes and mounts.
func newMountingNode(t *testing.T, fsType string) *node.Node {
	t.Helper()
	n := newNode(t)
	n.Set(n.Files, "fsType", fsType)
	n.Set(n.Files, "mount", "Agent")
	t.Cleanup(func() { // before the devices are detached
		n.Kill()
		folder := filepath.Join(disk.MountFolder, n.Files)
		for _, m := range mounted(t, folder) {
			if err := unix.Unmount(m.Point, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return n
}

// mounted returns the mounts below a folder.
func mounted(t *testing.T, folder string) []*mounts.Mount {
	t.Helper()
	table, err := mounts.Read(mounts.Self)
	if err != nil {
		t.Fatal(err)
	}
	return table.Below(folder)
}

// mountOf waits until the report shows that a volume is mounted, and returns the mount.
func mountOf(t *testing.T, n *node.Node, volume *corev1.PersistentVolume, device string) *mounts.Mount {
	t.Helper()
	path := volume.Spec.Local.Path
	// The report may be that of the former provisioner.
	err := wait.PollUntilContextTimeout(n.Env.Context(), 50*time.Millisecond, n.Env.Timeout, true, func(context.Context) (bool, error) { //nolint:forbidigo // mounts have no events
		_, err := os.Stat(path)
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("wait for %s: %v", path, err)
	}
	waitEntry(n, "the mount", func(e stowage.Entry) bool { return e.Volume == volume.Name && e.Link == stowage.LinkPresent })
	all := mounted(t, filepath.Dir(filepath.Dir(path)))
	if len(all) != 1 || all[0].Point != filepath.Dir(path) || all[0].Source != device {
		t.Fatalf("mounted is %v, want %s at %s", all, device, filepath.Dir(path))
	}
	return all[0]
}

// notMounted waits until the report shows that a volume is withheld, and checks that its path does
// not exist.
func notMounted(t *testing.T, n *node.Node, volume *corev1.PersistentVolume) {
	t.Helper()
	waitEntry(n, "no mount", func(e stowage.Entry) bool { return e.Volume == volume.Name && e.Link == stowage.LinkWithheld })
	if _, err := os.Stat(volume.Spec.Local.Path); !os.IsNotExist(err) {
		t.Errorf("the volume's path exists although it is withheld (%v)", err)
	}
	if all := mounted(t, filepath.Dir(filepath.Dir(volume.Spec.Local.Path))); len(all) > 0 {
		t.Errorf("mounted is %v", all)
	}
}

func readFile(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s has %q (%v), want %q", path, text, err, want)
	}
}

// TestMounted: the provisioner makes the file system of a device, and mounts it only while the
// device is the volume's and has that file system.
func TestMounted(t *testing.T) {
	for fsType, size := range map[string]string{"ext4": "64M", "xfs": "300M"} {
		t.Run(fsType, func(t *testing.T) { testMounted(t, newMountingNode(t, fsType), size) })
	}
}

func testMounted(t *testing.T, n *node.Node, size string) {
	device := n.Attach(n.Image("disk.raw", size))
	entry := n.PathOf(n.Files, "disk")
	n.Link(device, entry)
	n.Start()
	volume := n.Claim(n.Files, "disk")
	first := mountOf(t, n, volume, device)
	file := filepath.Join(volume.Spec.Local.Path, "file")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	if options := first.Options; !slices.Contains(options, "nosuid") || !slices.Contains(options, "nodev") {
		t.Errorf("the mount has options %v", options)
	}

	t.Log("A provisioner of other classes starts on the machine")
	other := node.New(t, n.Env, "b")
	other.Start()
	other.WaitReport("the report", func(*stowage.LocalDiskReport) bool { return true })
	if now := mountOf(t, n, volume, device); now.ID != first.ID {
		t.Errorf("the mount is another one than before the start: %v and %v", now, first)
	}

	t.Log("The provisioner is killed, and a pod runs")
	pod := n.Path("kubelet/pods/1/volumes/kubernetes.io~local-volume", volume.Name)
	n.Bind(volume.Spec.Local.Path, pod)
	n.Kill()
	n.Start()
	if now := mountOf(t, n, volume, device); now.ID != first.ID {
		t.Errorf("the mount is another one than before the restart: %v and %v", now, first)
	}

	t.Log("The entry leads to a blank disk, and the pod runs")
	blank := n.Attach(n.Image("other.raw", size))
	relink(t, blank, entry)
	notMounted(t, n, volume)
	readFile(t, filepath.Join(pod, "file"), secret)
	n.Unmount(pod)

	t.Log("The superblock is zeroed")
	super := n.Path("superblock")
	n.Command("dd", "if="+device, "of="+super, "bs=4096", "count=1", "status=none")
	n.Command("dd", "if=/dev/zero", "of="+device, "bs=4096", "count=1", "conv=fsync", "status=none")
	relink(t, device, entry)
	n.WaitEntry(n.Files, "disk", stowage.EntryBound, "SignatureLost")
	notMounted(t, n, volume)
	if head := n.Command("od", "-An", "-tx1", "-N4096", device); strings.Trim(head, " 0*\n") != "" {
		t.Errorf("something was written to the device: %s", head)
	}

	t.Log("The superblock is restored")
	n.Command("dd", "if="+super, "of="+device, "bs=4096", "count=1", "conv=fsync", "status=none")
	n.WaitEntry(n.Files, "disk", stowage.EntryBound, "")
	mountOf(t, n, volume, device)
	readFile(t, file, secret)

	t.Log("Nothing is mounted when the provisioner starts, as after a restart of the node")
	n.Kill()
	n.Unmount(filepath.Dir(volume.Spec.Local.Path))
	n.Start()
	mountOf(t, n, volume, device)
	readFile(t, file, secret)

	t.Log("The claim is deleted while a pod runs")
	n.Bind(volume.Spec.Local.Path, pod)
	n.Release(volume)
	n.WaitEntry(n.Files, "disk", stowage.EntryReleased, "VolumeInUse")
	if _, err := os.Stat(volume.Spec.Local.Path); !os.IsNotExist(err) {
		t.Errorf("the path of a released volume exists (%v)", err)
	}
	readFile(t, filepath.Join(pod, "file"), secret)
	n.Unmount(pod)
	if err := os.Remove(pod); err != nil { // as kubelet does, whose volume it is until then
		t.Fatal(err)
	}
	after := n.WaitRepublished(n.Files, "disk", volume)
	mountOf(t, n, after, device)
	if names, err := os.ReadDir(after.Spec.Local.Path); err != nil || len(names) > 0 {
		t.Errorf("the next volume has %v (%v)", names, err)
	}
	if all := mounted(t, filepath.Join(disk.MountFolder, n.Files)); len(all) != 1 {
		t.Errorf("mounted are %v", all)
	}
}

// withPath makes the provisioner find programs in one folder only, which is returned.
func withPath(t *testing.T, n *node.Node) string {
	t.Helper()
	folder, script := n.Path("bin"), n.Path("provisioner.sh")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nPATH=%s exec %s \"$@\"\n", folder, n.Binary), 0o755); err != nil { //nolint:gosec // It is run.
		t.Fatal(err)
	}
	n.Binary = script
	return folder
}

// TestMkfs: a missing mkfs is reported, an interrupted one is repeated, and data is never
// overwritten.
func TestMkfs(t *testing.T) {
	n := newMountingNode(t, "ext4")
	folder := withPath(t, n)
	device, taken := n.Attach(n.Image("disk.raw", "64M")), n.Attach(n.Image("taken.raw", "64M"))
	n.Command("mkfs.ext4", "-q", taken)
	before := n.Command("sha256sum", taken)
	n.Link(device, n.PathOf(n.Files, "disk"))
	n.Link(taken, n.PathOf(n.Files, "taken"))
	n.Start()
	n.WaitEntry(n.Files, "disk", stowage.EntryPending, "MkfsMissing")
	n.WaitEntry(n.Files, "taken", stowage.EntrySkipped, "NotEmpty")

	t.Log("mkfs has written the superblock, and does not end")
	n.Kill()
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Fatal(err)
	}
	started, never := n.Path("started"), n.Path("never")
	if err := unix.Mkfifo(never, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s \"$@\" && echo >%s && read x <%s\n", mkfs, started, never)
	if err := os.WriteFile(filepath.Join(folder, "mkfs.ext4"), []byte(script), 0o755); err != nil { //nolint:gosec // It is run.
		t.Fatal(err)
	}
	n.Start()
	readFile(t, started, "\n") // waits for the writer
	made := n.Command("blkid", "-p", "-s", "UUID", "-o", "value", device)
	n.Kill()
	if err := os.Remove(filepath.Join(folder, "mkfs.ext4")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(mkfs, filepath.Join(folder, "mkfs.ext4")); err != nil {
		t.Fatal(err)
	}
	n.Start()
	volume := n.WaitPhase(n.Files, "disk", corev1.VolumeAvailable)
	mountOf(t, n, volume, device)
	if again := n.Command("blkid", "-p", "-s", "UUID", "-o", "value", device); again != made {
		t.Errorf("the file system has UUID %s, want that of the interrupted mkfs, %s", again, made)
	}
	n.WaitEntry(n.Files, "taken", stowage.EntrySkipped, "NotEmpty")
	if after := n.Command("sha256sum", taken); after != before {
		t.Errorf("the disk with data had %s, and has %s", before, after)
	}
}
