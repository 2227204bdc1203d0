// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/provisioner"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
)

// attach has a disk attached or mounted again.
func (e *env) attach(name string, attachment disk.Attachment) {
	e.disks.mu.Lock()
	defer e.disks.mu.Unlock()
	f := e.disks.facts[name]
	f.Attachment = attachment
	e.disks.facts[name] = f
}

// TestCleanDiskThatWasAway: a record that says Clean is evidence only while the disk stays
// where it is, whatever the clock says.
func TestCleanDiskThatWasAway(t *testing.T) {
	for name, test := range map[string]struct {
		now      disk.Attachment
		data     string
		existing provisioner.ExistingData
		reason   string
		cleaned  int
	}{
		"it stayed":                                 {now: "boot1/mount:1", reason: "Pending"},
		"mounted again, empty":                      {now: "boot1/mount:2", reason: "Pending"},
		"mounted again, with data":                  {now: "boot1/mount:2", data: "of another node", reason: "Skipped: NotEmpty"},
		"with data, after a restart of the node":    {now: "boot2/mount:1", data: "of another node", reason: "Skipped: NotEmpty"},
		"with data, and the kernel does not tell":   {now: "", data: "of another node", reason: "Skipped: NotEmpty"},
		"with data, and the class has it cleaned":   {now: "boot1/mount:2", data: "of another node", existing: provisioner.ExistingDataClean, reason: "Pending", cleaned: 1},
		"with data, and the class has it published": {now: "boot1/mount:2", data: "of another node", existing: provisioner.ExistingDataPublish, reason: "Pending"},
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
			inBubble(t, func(w *env) {
				w.records = open()
				defer func() { w.stop(); _ = w.records.Close() }()
				identity := w.disks.add("disk1", test.data)
				w.attach("disk1", test.now)
				if test.existing != "" {
					w.config.Classes[0].ExistingData = test.existing
				}
				w.start()
				w.pass(time.Minute)
				w.expect("disk1", test.reason)
				if got := w.disks.cleaned(); len(got) != test.cleaned {
					t.Errorf("cleaned %q", got)
				}
				if test.cleaned == 0 && w.disks.read(identity) != test.data {
					t.Errorf("the data is %q, was %q", w.disks.read(identity), test.data)
				}
			})
		})
	}
}

// TestFreeDiskThatWasAway: the disk of a free volume was elsewhere while the provisioner did
// not run.
func TestFreeDiskThatWasAway(t *testing.T) {
	const data = "of another node"
	for name, test := range map[string]struct {
		now    disk.Attachment
		data   string
		prior  string // the data with which the disk was published
		during func(w *env)
		reason string
		same   bool // the volume is the one that it was
	}{
		"mounted again, empty":                 {now: "boot1/mount:2", reason: "Available", same: true},
		"after a restart of the node, empty":   {now: "boot2/mount:1", reason: "Available", same: true},
		"it was not away":                      {now: "boot1/mount:1", data: data, reason: "Available", same: true},
		"mounted again, with data":             {now: "boot1/mount:2", data: data, reason: "Retained: VolumeVanished"},
		"with data, and the volume is deleted": {now: "boot1/mount:2", data: data, during: (*env).remove, reason: "Retained: VolumeVanished"},
		"it was published with its data":       {now: "boot1/mount:2", prior: "old", data: "old", reason: "Available", same: true},
		"a pod has used it, and its claim was removed by hand": {now: "boot1/mount:2", data: data, reason: "Available", same: true, during: func(w *env) {
			w.change(func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef, pv.Status.Phase = nil, corev1.VolumeAvailable })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				identity := w.disks.add("disk1", test.prior)
				if test.prior != "" {
					w.config.Classes[0].ExistingData = provisioner.ExistingDataPublish
				}
				w.start()
				w.phase(corev1.VolumeAvailable)
				first := w.volume()
				if name == "a pod has used it, and its claim was removed by hand" {
					w.phase(corev1.VolumeBound)
				}
				w.stop()
				w.attach("disk1", test.now)
				w.disks.write(identity, test.data)
				if test.during != nil {
					test.during(w)
				}
				w.start()
				w.pass(time.Minute)
				w.expect("disk1", test.reason)
				if pv := w.volume(); (pv != nil && pv.UID == first.UID) != test.same {
					t.Errorf("the volume is %v, was %s", pv, first.Name)
				}
				if got := w.disks.cleaned(); len(got) > 0 || w.disks.read(identity) != test.data {
					t.Errorf("cleaned %q, data %q", got, w.disks.read(identity))
				}
				if test.same { // what was checked once is not read again
					w.disks.mu.Lock()
					before := w.disks.asked
					w.disks.mu.Unlock()
					w.stop()
					w.start()
					w.pass(time.Minute)
					w.disks.mu.Lock()
					defer w.disks.mu.Unlock()
					if w.disks.asked != before {
						t.Errorf("the disk is read %d times after a restart of the provisioner", w.disks.asked-before)
					}
				}
			})
		})
	}
}

// TestUsedDiskThatWasAway: the data of a claim is no reason against its volume, and is
// cleaned when it is released.
func TestUsedDiskThatWasAway(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.startBound()
		w.disks.write(identity, "of the claim")
		w.stop()
		w.attach("disk1", "boot2/mount:1")
		w.start()
		w.pass(time.Minute)
		w.expect("disk1", "Bound")
		w.phase(corev1.VolumeReleased)
		w.pass(time.Minute)
		if got := w.disks.cleaned(); len(got) != 1 || w.disks.read(identity) != "" {
			t.Errorf("cleaned %q, data %q", got, w.disks.read(identity))
		}
		if record := w.record(identity); record.Attachment != "boot2/mount:1" {
			t.Errorf("the attachment of the next volume's disk is %q", record.Attachment)
		}
	})
}
