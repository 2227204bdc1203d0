// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/integration/node"
)

// fileUses are ways of using a volume; each returns a function that ends it.
func fileUses(t *testing.T, n *node.Node) map[string]func(*corev1.PersistentVolume) (end func()) {
	return map[string]func(*corev1.PersistentVolume) (end func()){
		"container": func(v *corev1.PersistentVolume) func() { // of a pod that was deleted by force
			folder := n.Path("kubelet/pods/uid-1/volumes/kubernetes.io~local-volume", v.Name)
			n.Bind(v.Spec.Local.Path, folder)
			return func() { n.Unmount(folder); remove(t, folder) }
		},
		"leftover": func(v *corev1.PersistentVolume) func() { // kubelet has unmounted, and is not done
			folder := n.Path("kubelet/pods/uid-2/volumes/kubernetes.io~local-volume", v.Name)
			keepEmpty(t, folder)
			return func() { remove(t, folder) }
		},
		"second-mount": func(v *corev1.PersistentVolume) func() {
			folder := n.Path("second")
			n.Bind(v.Spec.Local.Path, folder)
			return func() { n.Unmount(folder) }
		},
		"part-mounted": func(v *corev1.PersistentVolume) func() {
			folder := n.Path("part")
			keepEmpty(t, filepath.Join(v.Spec.Local.Path, "part"))
			n.Bind(filepath.Join(v.Spec.Local.Path, "part"), folder)
			return func() { n.Unmount(folder) }
		},
		"loop": func(v *corev1.PersistentVolume) func() {
			image := filepath.Join(v.Spec.Local.Path, "image")
			n.Command("truncate", "--size=1M", image)
			device := n.Attach(image)
			return func() { n.Detach(device) }
		},
	}
}

// TestFilesInUse: the clean of a released file system waits for the last of its users.
func TestFilesInUse(t *testing.T) {
	n := newNode(t)
	uses := fileUses(t, n)
	for name := range uses {
		slots(n, name)
	}
	n.Start()
	ends, volumes := map[string]func(){}, map[string]*corev1.PersistentVolume{}
	for name, use := range uses {
		volumes[name] = used(n, name)
		ends[name] = use(volumes[name])
	}
	for name, volume := range volumes {
		n.Release(volume)
		n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeInUse")
		n.WaitEntry(n.Files, name, stowage.EntryReleased, "VolumeInUse")
	}
	fence(n, "1")
	for name, end := range ends {
		untouched(t, n.PathOf(n.Files, name))
		end()
	}
	for name, volume := range volumes {
		n.WaitRepublished(n.Files, name, volume)
		emptied(t, n, name)
	}
}

// deviceUses are ways of using a device; each returns a function that ends it.
func deviceUses(t *testing.T, n *node.Node) map[string]func(device string) (end func()) {
	return map[string]func(device string) (end func()){
		"exclusive": func(device string) func() {
			held, err := os.OpenFile(device, os.O_RDONLY|unix.O_EXCL, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = held.Close() })
			return func() { _ = held.Close() }
		},
		"swap": func(device string) func() { return swapOn(n, device) },
		"mounted": func(device string) func() {
			n.Command("mkfs.ext4", "-q", "-E", "nodiscard", device)
			mountAside(n, device, n.Path("aside"))
			return func() { n.Unmount(n.Path("aside")) }
		},
		"loop": func(device string) func() { // as kubelet holds devices of pods
			second := n.Attach(device)
			return func() { n.Detach(second) }
		},
	}
}

// TestDevicesInUse: the clean of a released device waits for the last of its users.
func TestDevicesInUse(t *testing.T) {
	n := newNode(t)
	uses := deviceUses(t, n)
	devices := map[string]string{}
	for name := range uses {
		devices[name] = n.Device(name, "16M")
	}
	n.Start()
	ends, volumes := map[string]func(){}, map[string]*corev1.PersistentVolume{}
	for name, use := range uses {
		volumes[name] = n.Claim(n.Blocks, name)
		plant(t, devices[name], planted)
		ends[name] = use(devices[name])
	}
	for name, volume := range volumes {
		n.Release(volume)
		n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeInUse")
		n.WaitEntry(n.Blocks, name, stowage.EntryReleased, "VolumeInUse")
	}
	fence(n, "1")
	for name, end := range ends {
		if !found(t, devices[name], planted) {
			t.Errorf("%s was cleaned while in use", name)
		}
		end()
		if lingers(devices[name]) {
			t.Logf("%s: the kernel keeps the file system that was unmounted: another mount namespace of this machine has a copy of the mount", name)
			delete(volumes, name)
		}
	}
	for name, volume := range volumes {
		n.WaitRepublished(n.Blocks, name, volume)
		if found(t, devices[name], planted) {
			t.Errorf("%s is free and was not cleaned", name)
		}
	}
}

// lingers reports whether the kernel holds a file system of a device, in any mount namespace.
func lingers(device string) bool {
	_, err := os.Stat(filepath.Join("/sys/fs/ext4", filepath.Base(device)))
	return err == nil
}

// TestNestedMounts: nothing beyond a mount within a volume is touched, whether of another
// file system or of the volume's own, and the clean resumes after the unmount.
func TestNestedMounts(t *testing.T) {
	n := newNode(t)
	slots(n, "other")
	image := n.Image("shared.ext4", "32M")
	n.Command("mkfs.ext4", "-q", image)
	n.MountAt(image, n.Path("shared"))
	keepEmpty(t, n.Path("shared", "volume"))
	keep(t, n.Path("shared", "beside"))
	n.Bind(n.Path("shared", "volume"), n.PathOf(n.Files, "same"))
	n.Start()
	other, same := used(n, "other"), used(n, "same")
	nested := map[string]string{"other": n.PathOf(n.Files, "other/a/b"), "same": n.PathOf(n.Files, "same/a/b")}
	keepEmpty(t, nested["other"])
	n.Command("mount", "-t", "tmpfs", "none", nested["other"])
	t.Cleanup(func() { _ = unix.Unmount(nested["other"], unix.MNT_DETACH) })
	keep(t, nested["other"])
	n.Bind(n.Path("shared", "beside"), nested["same"])

	n.Release(other)
	n.Release(same)
	for name, volume := range map[string]*corev1.PersistentVolume{"other": other, "same": same} {
		n.Env.WaitEvent(metav1.NamespaceDefault, volume.Name, "VolumeFailedDelete", nested[name])
		untouched(t, nested[name])
		entry := n.WaitEntry(n.Files, name, stowage.EntryCleaning, "CleanFailed")
		if entry.Volume != volume.Name {
			t.Errorf("the entry is %+v", entry)
		}
	}
	n.Unmount(nested["other"])
	n.Unmount(nested["same"])
	for name, volume := range map[string]*corev1.PersistentVolume{"other": other, "same": same} {
		n.WaitRepublished(n.Files, name, volume)
		emptied(t, n, name)
	}
	untouched(t, n.Path("shared", "beside"))
}

// TestHostCanUnmount: the provisioner keeps no file of a volume open, so that the host can
// remove any disk at any time.
func TestHostCanUnmount(t *testing.T) {
	n := newNode(t)
	names := []string{"1", "2", "3"}
	slots(n, names...)
	n.Start()
	for _, name := range names {
		volume := used(n, name)
		n.Release(volume)
		n.WaitRepublished(n.Files, name, volume)
		n.Unmount(n.PathOf(n.Files, name))
		n.WaitNone(n.Files, name)
	}
	n.Device("device", "16M")
	device := n.Claim(n.Blocks, "device")
	n.Release(device)
	n.WaitRepublished(n.Blocks, "device", device)
	held, err := os.OpenFile(n.PathOf(n.Blocks, "device"), os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		t.Fatalf("the host cannot have a device that is free: %v", err)
	}
	_ = held.Close()
}
