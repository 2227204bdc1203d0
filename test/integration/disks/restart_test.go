// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package disks_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// TestKilledWhileCleaning: the next provisioner completes the clean of a killed one, and
// publishes the disk after that.
func TestKilledWhileCleaning(t *testing.T) {
	n := newNode(t)
	script := program(t, n, "slow", `if mkdir "`+n.Path("begun")+`" 2>/dev/null; then exec sleep 1000; fi
exec dd if=/dev/zero of="$LOCAL_PV_BLKDEVICE" bs=1M count=16 conv=fsync,notrunc status=none`)
	n.Set(n.Blocks, "blockCleanerCommand", []string{script})
	passes := n.AddClass("passes", map[string]any{"volumeMode": "Block", "blockCleanerCommand": []string{"shred", "20"}})
	n.Env.CreateClass(n.Env.Class(passes).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	device, shredded := n.Device("disk", "16M"), n.Attach(n.Image("passes.raw", "32M"))
	n.Link(shredded, n.PathOf(passes, "disk"))
	n.Start()
	volume, other := n.Claim(n.Blocks, "disk"), n.Claim(passes, "disk")
	plant(t, device, planted)
	plant(t, shredded, planted)
	n.Release(volume)
	n.WaitReport("cleaning", func(r *stowage.LocalDiskReport) bool {
		for _, entry := range r.Status.Entries {
			if entry.Class == n.Blocks && entry.Cleaning != nil && entry.Cleaning.StartTime != nil {
				return true
			}
		}
		return false
	})
	n.Unclaim(other)
	n.Env.WaitEvent(metav1.NamespaceDefault, other.Name, "VolumeDelete")
	n.Kill()
	if now := n.Volume(n.Blocks, "disk"); now == nil || now.UID != volume.UID || now.DeletionTimestamp == nil {
		t.Errorf("while it is cleaned, the volume is %+v", now)
	}
	if !found(t, device, planted) {
		t.Error("the command was not to have done anything yet")
	}
	n.Start()
	n.WaitRepublished(n.Blocks, "disk", volume)
	n.WaitRepublished(passes, "disk", other)
	if !blank(t, device) || !blank(t, shredded) {
		t.Error("a device is free that holds data")
	}
}

// TestRestarted: a provisioner that is restarted finds its volumes, and creates no
// others.
func TestRestarted(t *testing.T) {
	n := newNode(t)
	slots(n, "free", "used")
	n.Device("free", "16M")
	n.Start()
	before := []*corev1.PersistentVolume{n.WaitPhase(n.Files, "free", corev1.VolumeAvailable), used(n, "used"), n.WaitPhase(n.Blocks, "free", corev1.VolumeAvailable)}
	n.Stop()
	n.Start()
	fence(n, "1")
	n.Kill()
	n.Start()
	fence(n, "2")
	after := []*corev1.PersistentVolume{n.Volume(n.Files, "free"), n.Volume(n.Files, "used"), n.Volume(n.Blocks, "free")}
	for i := range before {
		if after[i] == nil || after[i].UID != before[i].UID {
			t.Errorf("volume %s has not stayed", before[i].Name)
		}
	}
	untouched(t, n.PathOf(n.Files, "used"))
}
