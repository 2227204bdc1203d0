// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// TestDiskWrittenElsewhere: a free disk is written to at another place while no provisioner runs.
// Its data is neither offered nor cleaned until it is acknowledged.
func TestDiskWrittenElsewhere(t *testing.T) {
	n := newNode(t)
	names, images := []string{"written", "empty", "found"}, map[string]string{}
	for _, name := range names {
		images[name] = n.Image(name+".ext4", "16M")
		n.Command("mkfs.ext4", "-q", images[name])
		n.MountAt(images[name], n.PathOf(n.Files, name))
	}
	keep(t, n.PathOf(n.Files, "found"))
	n.Start()
	written, empty := n.WaitPhase(n.Files, "written", corev1.VolumeAvailable), n.WaitPhase(n.Files, "empty", corev1.VolumeAvailable)
	acknowledge(n, n.WaitEntry(n.Files, "found", stowage.EntrySkipped, "NotEmpty").Acknowledgement)
	found := n.WaitPhase(n.Files, "found", corev1.VolumeAvailable)
	n.Stop()

	for _, name := range []string{"written", "empty"} {
		n.Unmount(n.PathOf(n.Files, name))
	}
	elsewhere := n.Path("elsewhere")
	n.MountAt(images["written"], elsewhere)
	keep(t, elsewhere)
	n.Unmount(elsewhere)
	for _, name := range []string{"written", "empty"} {
		n.MountAt(images[name], n.PathOf(n.Files, name))
	}

	n.Start()
	kept := n.WaitEntry(n.Files, "written", stowage.EntryRetained, "VolumeVanished")
	n.WaitNone(n.Files, "written")
	n.WaitEntry(n.Files, "empty", stowage.EntryAvailable, "")
	for name, before := range map[string]*corev1.PersistentVolume{"empty": empty, "found": found} {
		if now := n.Volume(n.Files, name); now == nil || now.UID != before.UID {
			t.Errorf("the volume of disk %s has not stayed: %v", name, now)
		}
	}
	untouched(t, n.PathOf(n.Files, "written"))

	acknowledge(n, kept.Acknowledgement)
	if again := n.WaitPhase(n.Files, "written", corev1.VolumeAvailable); again.Name == written.Name {
		t.Errorf("the next volume is called %s again", again.Name)
	}
	for _, name := range []string{"written", "found"} {
		untouched(t, n.PathOf(n.Files, name))
	}
}
