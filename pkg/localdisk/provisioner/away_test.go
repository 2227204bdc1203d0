// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
)

// attach changes the attachment of a disk, as a new mount does.
func (e *env) attach(name string, attachment disk.Attachment) {
	e.disks.mu.Lock()
	defer e.disks.mu.Unlock()
	f := e.disks.facts[name]
	f.Attachment = attachment
	e.disks.facts[name] = f
}

// TestCleanDiskThatWasAway: a record with state Clean is valid only while the disk stays
// attached, independent of time.
func TestCleanDiskThatWasAway(t *testing.T) {
	for name, test := range map[string]struct {
		now      disk.Attachment
		data     string
		existing provisioner.ExistingData
		reason   string
		cleaned  int
	}{
		"it stayed":                                {now: "boot1/mount:1", reason: "Pending"},
		"mounted again, empty":                     {now: "boot1/mount:2", reason: "Pending"},
		"mounted again, with data":                 {now: "boot1/mount:2", data: "of another node", reason: "Skipped: NotEmpty"},
		"with data, after a restart of the node":   {now: "boot2/mount:1", data: "of another node", reason: "Skipped: NotEmpty"},
		"with data, and the attachment is unknown": {now: "", data: "of another node", reason: "Skipped: NotEmpty"},
		"with data, and the class cleans it":       {now: "boot1/mount:2", data: "of another node", existing: provisioner.ExistingDataClean, reason: "Pending", cleaned: 1},
		"with data, and the class publishes it":    {now: "boot1/mount:2", data: "of another node", existing: provisioner.ExistingDataPublish, reason: "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			f, state := fact("disk1"), t.TempDir()
			open := func() *diskrecord.Store {
				records, err := diskrecord.Open(state, "/proc")
				if err != nil {
					t.Fatal(err)
				}
				return records
			}
			ahead := open() // of the bubble's clock, by years
			if err := errors.Join(ahead.Put(disk.Record{
				Identity: f.Identity, Key: f.Key, HostPath: f.HostPath, Kind: f.Kind, Mode: disk.Filesystem, State: disk.Clean, Cluster: cluster,
				Policy: disk.Delete, Generation: 7, Attachment: f.Attachment,
			}), ahead.Close()); err != nil {
				t.Fatal(err)
			}
			inBubble(t, func(e *env) {
				e.records = open()
				defer func() { e.stop(); _ = e.records.Close() }()
				identity := e.disks.add("disk1", test.data)
				e.attach("disk1", test.now)
				if test.existing != "" {
					configure(e.config, func(c *provisioner.Class) { c.ExistingData = test.existing })
				}
				e.start()
				e.pass(time.Minute)
				e.expect("disk1", test.reason)
				if got := e.disks.cleaned(); len(got) != test.cleaned {
					t.Errorf("cleaned %q", got)
				}
				if test.cleaned == 0 && e.disks.read(identity) != test.data {
					t.Errorf("the data is %q, was %q", e.disks.read(identity), test.data)
				}
			})
		})
	}
}

// TestFreeDiskThatWasAway: the disk of a free volume was detached while the provisioner was not
// running.
func TestFreeDiskThatWasAway(t *testing.T) {
	const data = "of another node"
	for name, test := range map[string]struct {
		now    disk.Attachment
		data   string
		prior  string // the data with which the disk was published
		during func(e *env)
		reason string
		same   bool // the volume is the one that it was
	}{
		"mounted again, empty":                 {now: "boot1/mount:2", reason: "Available", same: true},
		"after a restart of the node, empty":   {now: "boot2/mount:1", reason: "Available", same: true},
		"it was not away":                      {now: "boot1/mount:1", data: data, reason: "Available", same: true},
		"mounted again, with data":             {now: "boot1/mount:2", data: data, reason: "Retained: VolumeVanished"},
		"with data, and the volume is deleted": {now: "boot1/mount:2", data: data, during: (*env).remove, reason: "Retained: VolumeVanished"},
		"it was published with its data":       {now: "boot1/mount:2", prior: "old", data: "old", reason: "Available", same: true},
		"a pod has used it, and its claim was removed by hand": {now: "boot1/mount:2", data: data, reason: "Available", same: true, during: func(e *env) {
			e.change(func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef, pv.Status.Phase = nil, corev1.VolumeAvailable })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				identity := e.disks.add("disk1", test.prior)
				if test.prior != "" {
					configure(e.config, func(c *provisioner.Class) { c.ExistingData = provisioner.ExistingDataPublish })
				}
				e.start()
				e.phase(corev1.VolumeAvailable)
				first := e.volume()
				if name == "a pod has used it, and its claim was removed by hand" {
					e.phase(corev1.VolumeBound)
				}
				e.stop()
				e.attach("disk1", test.now)
				e.disks.write(identity, test.data)
				if test.during != nil {
					test.during(e)
				}
				e.start()
				e.pass(time.Minute)
				e.expect("disk1", test.reason)
				if pv := e.volume(); (pv != nil && pv.UID == first.UID) != test.same {
					t.Errorf("the volume is %v, was %s", pv, first.Name)
				}
				if got := e.disks.cleaned(); len(got) > 0 || e.disks.read(identity) != test.data {
					t.Errorf("cleaned %q, data %q", got, e.disks.read(identity))
				}
				if test.same { // what was checked once is not read again
					e.disks.mu.Lock()
					before := e.disks.asked
					e.disks.mu.Unlock()
					e.stop()
					e.start()
					e.pass(time.Minute)
					e.disks.mu.Lock()
					defer e.disks.mu.Unlock()
					if e.disks.asked != before {
						t.Errorf("the disk is read %d times after a restart of the provisioner", e.disks.asked-before)
					}
				}
			})
		})
	}
}

// TestUsedDiskThatWasAway: a volume with a claim may have data, which is cleaned when the volume
// is released.
func TestUsedDiskThatWasAway(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.startBound()
		e.disks.write(identity, "of the claim")
		e.stop()
		e.attach("disk1", "boot2/mount:1")
		e.start()
		e.pass(time.Minute)
		e.expect("disk1", "Bound")
		e.phase(corev1.VolumeReleased)
		e.pass(time.Minute)
		if got := e.disks.cleaned(); len(got) != 1 || e.disks.read(identity) != "" {
			t.Errorf("cleaned %q, data %q", got, e.disks.read(identity))
		}
		if record := e.record(identity); record.Attachment != "boot2/mount:1" {
			t.Errorf("the attachment of the next volume's disk is %q", record.Attachment)
		}
	})
}
