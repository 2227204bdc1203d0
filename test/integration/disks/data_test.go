// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// TestExistingData: the class determines what happens to a disk with data that was never
// published.
func TestExistingData(t *testing.T) {
	n := newNode(t)
	classes, mounts, devices := map[string]string{}, map[string]string{}, map[string]string{}
	for _, choice := range []string{"Refuse", "Publish", "Clean"} {
		files := n.AddClass("files-"+strings.ToLower(choice), map[string]any{"existingData": choice})
		blocks := n.AddClass("blocks-"+strings.ToLower(choice), map[string]any{"existingData": choice, "volumeMode": "Block"})
		for _, class := range []string{files, blocks} {
			n.Env.CreateClass(n.Env.Class(class).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
		}
		classes[choice], classes[choice+" block"] = files, blocks
		image := n.Image(choice+".ext4", "16M")
		n.Command("mkfs.ext4", "-q", image)
		mounts[choice] = n.PathOf(files, "disk")
		n.MountAt(image, mounts[choice])
		keep(t, mounts[choice])
		devices[choice] = n.Attach(n.Image(choice+".raw", "16M"))
		plant(t, devices[choice], planted)
		n.Link(devices[choice], n.PathOf(blocks, "disk"))
	}
	n.Start()
	for _, kind := range []string{"", " block"} {
		n.WaitEntry(classes["Refuse"+kind], "disk", stowage.EntrySkipped, "NotEmpty")
		n.WaitPhase(classes["Publish"+kind], "disk", corev1.VolumeAvailable)
		n.WaitPhase(classes["Clean"+kind], "disk", corev1.VolumeAvailable)
	}
	fence(n, "1")
	for _, choice := range []string{"Refuse", "Publish"} {
		untouched(t, mounts[choice])
		if !found(t, devices[choice], planted) {
			t.Errorf("%s: the device was cleaned", choice)
		}
	}
	if _, err := os.Stat(mounts["Clean"] + "/secret"); err == nil {
		t.Error("Clean: the file system was not cleaned")
	}
	if !blank(t, devices["Clean"]) {
		t.Error("Clean: the device was not cleaned")
	}

	remove(t, mounts["Refuse"]+"/secret")
	n.Command("dd", "if=/dev/zero", "of="+devices["Refuse"], "bs=1M", "count=16", "conv=fsync")
	n.WaitPhase(classes["Refuse"], "disk", corev1.VolumeAvailable)
	n.WaitPhase(classes["Refuse block"], "disk", corev1.VolumeAvailable)
}

// TestCleanIsNotForDisksInUse: a class that cleans unknown data does not clean disks in use.
func TestCleanIsNotForDisksInUse(t *testing.T) {
	n := newNode(t)
	n.Set(n.Files, "existingData", "Clean")
	n.Set(n.Blocks, "existingData", "Clean")
	image := n.Image("disk.ext4", "16M")
	n.Command("mkfs.ext4", "-q", image)
	n.MountAt(image, n.Path("elsewhere"))
	keep(t, n.Path("elsewhere"))
	n.Bind(n.Path("elsewhere"), n.PathOf(n.Files, "disk"))
	device := n.Device("raw", "16M")
	plant(t, device, planted)
	second := n.Attach(device)
	n.Start()
	n.WaitEntry(n.Files, "disk", stowage.EntrySkipped, "InUse")
	n.WaitEntry(n.Blocks, "raw", stowage.EntrySkipped, "InUse")
	fence(n, "1")
	untouched(t, n.Path("elsewhere"))
	if !found(t, device, planted) {
		t.Error("a device in use was cleaned")
	}
	n.Detach(second)
	n.Unmount(n.Path("elsewhere"))
	n.WaitPhase(n.Files, "disk", corev1.VolumeAvailable)
	n.WaitPhase(n.Blocks, "raw", corev1.VolumeAvailable)
	emptied(t, n, "disk")
	if !blank(t, device) {
		t.Error("a device is free that holds data")
	}
}
