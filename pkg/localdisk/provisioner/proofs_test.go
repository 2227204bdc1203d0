// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// device attaches a blank device of a number of steps; see proofStep.
func (e *env) device(name string, steps int64, places ...string) disk.Identity {
	f := fact(name)
	f.Kind, f.FilesystemType, f.Device = disk.Device, "", "/dev/"+name
	f.Identity, f.Place, f.Bytes = disk.Identity("wwn:"+name), "dev:8:"+name, steps*proofStep
	f.Overlaps = places
	e.disks.slowly()
	e.disks.put(f)
	return f.Identity
}

// proof returns the proof of a slot in the report.
func (e *env) proof(name string) stowage.BlankProof {
	for _, e := range e.provisioner.status.Entries() {
		if e.Name == name && e.BlankProof != nil {
			proof := *e.BlankProof
			proof.StartTime = nil
			return proof
		}
	}
	return stowage.BlankProof{}
}

func (e *env) published() []string {
	var names []string
	for _, pv := range e.api.volumes() {
		names = append(names, strings.TrimPrefix(localpv.PathOf(&pv), folder+"/"))
	}
	slices.Sort(names)
	return names
}

func (e *env) expectProofs(want ...string) {
	e.t.Helper()
	got := e.disks.proved()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		e.t.Errorf("devices read (-want +got):\n%s", diff)
	}
}

// TestDeviceIsReadBeforeItIsPublished: the ends and samples of a device are no proof.
func TestDeviceIsReadBeforeItIsPublished(t *testing.T) {
	inBubble(t, func(e *env) {
		e.device("blank", 100)
		e.disks.hide(e.device("secret", 100), 20<<20)
		e.start()
		e.expect("blank", "Pending: ProvingBlank")
		e.expect("secret", "Pending: ProvingBlank")
		e.pass(9 * time.Second)
		got := e.proof("blank")
		if got.DoneBytes < 5*proofStep || got.DoneBytes > 20*proofStep || got.TotalBytes != 100*proofStep || got.Attempts != 1 {
			t.Errorf("the proof in the report is %+v", got)
		}
		e.pass(15 * time.Second)
		e.expect("secret", "Skipped: NotEmpty")
		e.expect("blank", "Pending: ProvingBlank")
		if diff := cmp.Diff([]string(nil), e.published()); diff != "" {
			t.Error(diff)
		}
		e.pass(2 * time.Minute)
		e.expect("secret", "Skipped: NotEmpty")
		if diff := cmp.Diff([]string{"blank"}, e.published()); diff != "" {
			t.Error(diff)
		}
		e.expectProofs("blank from 0", "secret from 0")

		e.pass(24 * time.Hour) // it is inspected every half hour
		e.expectProofs()
		e.expect("secret", "Skipped: NotEmpty")
		e.disks.show("wwn:secret") // zeroed by an administrator
		e.pass(40 * time.Minute)
		e.expectProofs("secret from 0")
		if diff := cmp.Diff([]string{"blank", "secret"}, e.published()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestProofGoesOnAfterARestart: unless the device was written to in between.
func TestProofGoesOnAfterARestart(t *testing.T) {
	for name, test := range map[string]struct {
		before func(e *env, identity disk.Identity)
		want   func(done int64) []string
		reason string
	}{
		"not written to": {
			before: func(*env, disk.Identity) {},
			want:   func(done int64) []string { return []string{fmt.Sprintf("disk1 from %d", done)} }, reason: "Pending",
		},
		"it was written to": {
			before: func(e *env, identity disk.Identity) { e.disks.hide(identity, 1<<20) },
			want:   func(done int64) []string { return []string{fmt.Sprintf("disk1 from %d", done), "disk1 from 0"} }, reason: "Skipped: NotEmpty",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				identity := e.device("disk1", 100)
				e.start()
				e.pass(20 * time.Second)
				e.expectProofs("disk1 from 0")
				e.stop()
				done := e.records.BlankProofs()[identity].Done
				if done < 15*proofStep {
					t.Fatalf("%d bytes are recorded as read", done)
				}
				test.before(e, identity)
				e.start()
				e.pass(2 * time.Minute)
				e.expectProofs(test.want(done)...)
				e.expect("disk1", test.reason)
			})
		})
	}
}

// TestWriteVoidsAProof: during the proof, and between its end and the publication.
func TestWriteVoidsAProof(t *testing.T) {
	t.Run("while the device is read", func(t *testing.T) {
		inBubble(t, func(e *env) {
			identity := e.device("disk1", 20)
			e.start()
			e.pass(10 * time.Second)
			e.disks.hide(identity, 1<<20) // behind what was read
			e.pass(time.Minute)
			e.expect("disk1", "Skipped: NotEmpty")
			e.expectProofs("disk1 from 0", "disk1 from 0")
		})
	})
	t.Run("after the read, before it can be published", func(t *testing.T) {
		inBubble(t, func(e *env) {
			identity := e.device("disk1", 10)
			f := e.disks.facts["disk1"]
			f.Class, f.HostPath, f.Path = "slow", "/mnt/slow/disk1", "/mnt/slow/disk1"
			e.disks.put(f)
			other := e.config.Classes["fast"]
			other.HostDir, other.MountDir = "/mnt/slow", "/mnt/slow"
			e.config.Classes["slow"] = other
			e.start()
			e.pass(time.Minute)
			e.expect("disk1", "Pending: StorageClassMissing")
			e.expectProofs("disk1 from 0")
			e.disks.hide(identity, 1<<20)
			if err := e.api.Tracker().Add(class("slow", corev1.PersistentVolumeReclaimDelete)); err != nil {
				t.Fatal(err)
			}
			e.pass(5 * time.Minute)
			e.expect("disk1", "Skipped: NotEmpty")
			e.expectProofs("disk1 from 0")
		})
	})
}

// TestProofsTakeTurns: one per disk, up to the configured limit.
func TestProofsTakeTurns(t *testing.T) {
	inBubble(t, func(e *env) {
		e.device("a1", 60, "dev:8:a")
		e.device("a2", 60, "dev:8:a")
		e.device("b", 60)
		e.device("c", 60)
		e.start()
		e.pass(10 * time.Second)
		if running, queued := e.provisioner.proofs.Count(); running != 2 || queued != 2 {
			t.Errorf("%d proofs run and %d wait, want 2 and 2", running, queued)
		}
		both := 0
		for range 40 {
			e.pass(5 * time.Second)
			if e.proof("a1").DoneBytes > 0 && e.proof("a2").DoneBytes > 0 {
				both++
			}
		}
		if both > 0 {
			t.Error("two devices on one disk are read at the same time")
		}
		if got := len(e.published()); got != 4 {
			t.Errorf("%d devices are published, want 4", got)
		}
	})
}

// TestHungProof: a disk that does not answer does not delay others.
func TestHungProof(t *testing.T) {
	inBubble(t, func(e *env) {
		e.config.MaxBlankProofs = new(int32(1))
		hung := e.device("a", 20)
		e.start()
		e.pass(5 * time.Second)
		e.disks.hang(hung)
		e.device("b", 20)
		e.look()
		e.expect("b", "Pending: ProvingBlank")
		e.pass(5 * time.Minute)
		e.expect("a", "Pending: TimedOut")
		if diff := cmp.Diff([]string{"b"}, e.published()); diff != "" {
			t.Error(diff)
		}
		e.expectProofs("a from 0", "b from 0")
		e.disks.free()
		e.pass(15 * time.Minute)
		if diff := cmp.Diff([]string{"a", "b"}, e.published()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFailedProof: after a read error the proof resumes where it failed, with backoff.
func TestFailedProof(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.device("disk1", 60)
		e.start()
		e.pass(10 * time.Second)
		e.disks.fail(identity, errors.New("input/output error"))
		e.pass(2 * time.Second)
		e.expect("disk1", "Pending: Unreadable")
		if got := e.proof("disk1"); !strings.Contains(got.LastError, "input/output error") || got.Attempts != 1 {
			t.Errorf("the proof in the report is %+v", got)
		}
		e.disks.fail(identity, nil)
		e.pass(5 * time.Minute)
		if diff := cmp.Diff([]string{"disk1"}, e.published()); diff != "" {
			t.Error(diff)
		}
		reads := e.disks.proved()
		if len(reads) != 2 || reads[1] == "disk1 from 0" {
			t.Errorf("devices read: %q", reads)
		}
	})
}

// TestProofEndsWhenItIsNotNeeded: the proof of a disk that gets another user stops.
func TestProofEndsWhenItIsNotNeeded(t *testing.T) {
	inBubble(t, func(e *env) {
		e.device("disk1", 60)
		e.start()
		e.pass(5 * time.Second)
		f := e.disks.facts["disk1"]
		f.Problem = disk.Problemf(disk.InUse, "mounted at /data")
		e.disks.put(f)
		e.look()
		e.expect("disk1", "Skipped: InUse")
		if running, queued := e.provisioner.proofs.Count(); running+queued != 0 {
			t.Errorf("%d proofs run and %d wait", running, queued)
		}
	})
}

// TestRetainedDeviceIsReadBeforeItIsPublished: zeros at its ends are not sufficient.
func TestRetainedDeviceIsReadBeforeItIsPublished(t *testing.T) {
	inBubble(t, func(e *env) {
		e.retain()
		identity := e.device("disk1", 60)
		e.start()
		e.pass(2 * time.Minute)
		e.useAndRelease("")
		e.disks.hide(identity, 20<<20)
		e.remove()
		e.pass(10 * time.Minute)
		e.expect("disk1", "Retained: RetainedDirty")
		if diff := cmp.Diff([]string(nil), e.published()); diff != "" {
			t.Error(diff)
		}
		e.disks.show(identity)
		e.pass(10 * time.Second)
		e.pass(30 * time.Second)
		e.expect("disk1", "Retained: ProvingBlank")
		e.pass(3 * time.Minute)
		if diff := cmp.Diff([]string{"disk1"}, e.published()); diff != "" {
			t.Error(diff)
		}
	})
}

// weak attaches a device whose identity is valid for a boot only.
func (e *env) weak(boot string) disk.Identity {
	identity := e.device("disk1", 60)
	e.disks.mu.Lock()
	defer e.disks.mu.Unlock()
	f := e.disks.facts["disk1"]
	f.Identity = disk.Identity("weak:" + boot + ":1")
	e.disks.facts["disk1"] = f
	delete(e.disks.data, identity)
	return f.Identity
}

// TestPowerCutInACleanOfAWeakDisk: after the restart the disk has another identity, and
// its record, of state Cleaning, is found by its path only.
func TestPowerCutInACleanOfAWeakDisk(t *testing.T) {
	for name, test := range map[string]struct {
		secret bool
		ack    bool
		reason string
		want   []string
	}{
		"old bytes are left: refused, and not wiped":        {secret: true, reason: "Skipped: IdentityUnproven"},
		"old bytes are left, and acknowledged: published":   {secret: true, ack: true, reason: "Pending", want: []string{"disk1"}},
		"another disk, or a clean that was nearly complete": {reason: "Pending", want: []string{"disk1"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				first := e.weak("boot1")
				record := disk.Record{
					Identity: first, Key: disk.Key{Class: "fast", Name: "disk1"}, HostPath: folder + "/disk1", Kind: disk.Device, Mode: disk.Block, Cluster: cluster,
					State: disk.Cleaning, Volume: "local-pv-0", UID: "u", Generation: 7, Policy: disk.Delete, Step: "dd-zero 1:4194304/62914560",
				}
				if err := e.records.Put(record); err != nil {
					t.Fatal(err)
				}
				second := e.weak("boot2")
				if test.secret {
					e.disks.hide(second, 20<<20)
				}
				e.start()
				e.pass(2 * time.Minute)
				if test.ack {
					e.expect("disk1", "Skipped: IdentityUnproven")
					e.reports.mu.Lock()
					e.reports.known[node].Annotations = map[string]string{wellknown.PublishRetainedAnnotation: record.AcknowledgementAs(second)}
					e.reports.mu.Unlock()
					e.pass(retainedRecheckLast + 2*time.Second)
				}
				e.expect("disk1", test.reason)
				if diff := cmp.Diff(test.want, e.published()); diff != "" {
					t.Error(diff)
				}
				if cleaned := e.disks.cleaned(); len(cleaned) > 0 {
					t.Errorf("cleaned %q", cleaned)
				}
				_, kept, _ := e.records.Get(first)
				if kept != (test.want == nil) {
					t.Errorf("the record of the former disk exists: %t", kept)
				}
			})
		})
	}
}

// TestExistingDataCleanKeepsAPredecessor: a class that cleans unknown data does not clean a
// disk that may be the former one of its path, whose data is needed or belongs to another
// cluster. It is published with its data once that is acknowledged.
func TestExistingDataCleanKeepsAPredecessor(t *testing.T) {
	for name, test := range map[string]struct {
		record disk.Record
		now    disk.Identity // empty for one of the next boot
		reason string
	}{
		"of a volume, after a restart":           {record: disk.Record{State: disk.Published, Policy: disk.Delete, Phase: disk.PhaseBound}, reason: "IdentityUnproven"},
		"of a volume without a claim":            {record: disk.Record{State: disk.Published, Policy: disk.Delete, Phase: disk.PhaseAvailable}, reason: "IdentityUnproven"},
		"of a released volume":                   {record: disk.Record{State: disk.Published, Policy: disk.Delete, Phase: disk.PhaseReleased}, reason: "IdentityUnproven"},
		"of a volume, now with a serial number":  {record: disk.Record{State: disk.Published, Policy: disk.Delete, Phase: disk.PhaseBound}, now: "serial:m:1@m1", reason: "IdentityUnproven"},
		"of a volume, attached again":            {record: disk.Record{State: disk.Published, Policy: disk.Delete, Phase: disk.PhaseBound}, now: "weak:boot1:2", reason: "IdentityUnproven"},
		"retained":                               {record: disk.Record{State: disk.Retained, Policy: disk.Delete, Phase: disk.PhaseBound}, reason: "IdentityUnproven"},
		"of another cluster":                     {record: disk.Record{State: disk.Published, Policy: disk.Delete, Phase: disk.PhaseBound, Cluster: "another"}, reason: "OtherCluster"},
		"half cleaned by another cluster":        {record: disk.Record{State: disk.Cleaning, Policy: disk.Delete, Phase: disk.PhaseReleased, Cluster: "another"}, reason: "OtherCluster"},
		"of another cluster, with a serial name": {record: disk.Record{State: disk.Cleaning, Policy: disk.Delete, Cluster: "another"}, now: "serial:m:1@m1", reason: "OtherCluster"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				now := e.weak("boot2")
				configure(e.config, func(c *provisioner.Class) { c.ExistingData = provisioner.ExistingDataClean })
				if test.now != "" {
					f := e.disks.facts["disk1"]
					f.Identity, now = test.now, test.now
					e.disks.put(f)
				}
				e.disks.write(now, "ext4")
				record := test.record
				record.Identity, record.Key, record.HostPath, record.Kind, record.Mode = "weak:boot1:1", disk.Key{Class: "fast", Name: "disk1"}, folder+"/disk1", disk.Device, disk.Block
				record.Volume, record.UID, record.Generation = "local-pv-0", "u", 7
				if record.Cluster == "" {
					record.Cluster = cluster
				}
				if err := e.records.Put(record); err != nil {
					t.Fatal(err)
				}
				e.start()
				e.pass(48 * time.Hour)
				e.expect("disk1", "Skipped: "+test.reason)
				e.annotate(wellknown.PublishRetainedAnnotation, record.AcknowledgementAs(now))
				e.pass(time.Minute)
				if pv := e.volume(); pv == nil {
					t.Error("acknowledged, but not published")
				}
				if got := e.disks.cleaned(); len(got) > 0 || e.disks.read(now) != "ext4" {
					t.Errorf("cleaned %q, data %q", got, e.disks.read(now))
				}
			})
		})
	}
}
