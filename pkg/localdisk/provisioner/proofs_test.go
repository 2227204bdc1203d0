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

	"stowage.dev/stowage/pkg/apis/provisioner"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// device puts a blank device of so many steps into the node; see proofStep.
func (e *env) device(name string, steps int64, places ...string) disk.Identity {
	f := fact(name)
	f.Kind, f.FilesystemType, f.Device = disk.Device, "", "/dev/"+name
	f.Identity, f.Place, f.Bytes = disk.Identity("wwn:"+name), "dev:8:"+name, steps*proofStep
	f.Overlaps = places
	e.disks.slowly()
	e.disks.put(f)
	return f.Identity
}

// proof is what the report says of the proof of a slot.
func (e *env) proof(name string) stowage.BlankProof {
	for _, e := range e.provisioner.status.all() {
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

// TestDeviceIsReadBeforeItIsPublished: ends and samples of a device prove nothing.
func TestDeviceIsReadBeforeItIsPublished(t *testing.T) {
	inBubble(t, func(w *env) {
		w.device("blank", 100)
		w.disks.hide(w.device("secret", 100), 20<<20)
		w.start()
		w.expect("blank", "Pending: ProvingBlank")
		w.expect("secret", "Pending: ProvingBlank")
		w.pass(9 * time.Second)
		got := w.proof("blank")
		if got.DoneBytes < 5*proofStep || got.DoneBytes > 20*proofStep || got.TotalBytes != 100*proofStep || got.Attempts != 1 {
			t.Errorf("the report says %+v of the proof", got)
		}
		w.pass(15 * time.Second)
		w.expect("secret", "Skipped: NotEmpty")
		w.expect("blank", "Pending: ProvingBlank")
		if diff := cmp.Diff([]string(nil), w.published()); diff != "" {
			t.Error(diff)
		}
		w.pass(2 * time.Minute)
		w.expect("secret", "Skipped: NotEmpty")
		if diff := cmp.Diff([]string{"blank"}, w.published()); diff != "" {
			t.Error(diff)
		}
		w.expectProofs("blank from 0", "secret from 0")

		w.pass(24 * time.Hour) // it is looked at every half hour
		w.expectProofs()
		w.expect("secret", "Skipped: NotEmpty")
		w.disks.show("wwn:secret") // zeroed by an administrator
		w.pass(40 * time.Minute)
		w.expectProofs("secret from 0")
		if diff := cmp.Diff([]string{"blank", "secret"}, w.published()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestProofGoesOnAfterARestart: unless the device was written to meanwhile.
func TestProofGoesOnAfterARestart(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(w *env, identity disk.Identity)
		want      func(done int64) []string
		reason    string
	}{
		"nothing happened": {
			meanwhile: func(*env, disk.Identity) {},
			want:      func(done int64) []string { return []string{fmt.Sprintf("disk1 from %d", done)} }, reason: "Pending",
		},
		"it was written to": {
			meanwhile: func(w *env, identity disk.Identity) { w.disks.hide(identity, 1<<20) },
			want:      func(done int64) []string { return []string{fmt.Sprintf("disk1 from %d", done), "disk1 from 0"} }, reason: "Skipped: NotEmpty",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				identity := w.device("disk1", 100)
				w.start()
				w.pass(20 * time.Second)
				w.expectProofs("disk1 from 0")
				w.stop()
				done := w.records.BlankProofs()[identity].Done
				if done < 15*proofStep {
					t.Fatalf("%d bytes are recorded as read", done)
				}
				test.meanwhile(w, identity)
				w.start()
				w.pass(2 * time.Minute)
				w.expectProofs(test.want(done)...)
				w.expect("disk1", test.reason)
			})
		})
	}
}

// TestWriteVoidsAProof: during the proof, and between its end and the publication.
func TestWriteVoidsAProof(t *testing.T) {
	t.Run("while the device is read", func(t *testing.T) {
		inBubble(t, func(w *env) {
			identity := w.device("disk1", 20)
			w.start()
			w.pass(10 * time.Second)
			w.disks.hide(identity, 1<<20) // behind what was read
			w.pass(time.Minute)
			w.expect("disk1", "Skipped: NotEmpty")
			w.expectProofs("disk1 from 0", "disk1 from 0")
		})
	})
	t.Run("after it was read, while it cannot be published yet", func(t *testing.T) {
		inBubble(t, func(w *env) {
			identity := w.device("disk1", 10)
			f := w.disks.facts["disk1"]
			f.Class, f.HostPath, f.Path = "slow", "/mnt/slow/disk1", "/mnt/slow/disk1"
			w.disks.put(f)
			other := w.config.Classes[0]
			other.Name, other.HostDir, other.MountDir = "slow", "/mnt/slow", "/mnt/slow"
			w.config.Classes = append(w.config.Classes, other)
			w.start()
			w.pass(time.Minute)
			w.expect("disk1", "Pending: StorageClassMissing")
			w.expectProofs("disk1 from 0")
			w.disks.hide(identity, 1<<20)
			if err := w.api.Tracker().Add(class("slow", corev1.PersistentVolumeReclaimDelete)); err != nil {
				t.Fatal(err)
			}
			w.pass(5 * time.Minute)
			w.expect("disk1", "Skipped: NotEmpty")
			w.expectProofs("disk1 from 0")
		})
	})
}

// TestProofsTakeTurns: one per disk, and so many at a time as is configured.
func TestProofsTakeTurns(t *testing.T) {
	inBubble(t, func(w *env) {
		w.device("a1", 60, "dev:8:a")
		w.device("a2", 60, "dev:8:a")
		w.device("b", 60)
		w.device("c", 60)
		w.start()
		w.pass(10 * time.Second)
		if running, queued := w.provisioner.proofs.count(); running != 2 || queued != 2 {
			t.Errorf("%d proofs run and %d wait, want 2 and 2", running, queued)
		}
		both := 0
		for range 40 {
			w.pass(5 * time.Second)
			if w.proof("a1").DoneBytes > 0 && w.proof("a2").DoneBytes > 0 {
				both++
			}
		}
		if both > 0 {
			t.Error("two devices on one disk are read at the same time")
		}
		if got := len(w.published()); got != 4 {
			t.Errorf("%d devices are published, want 4", got)
		}
	})
}

// TestHungProof: a disk that does not answer holds up no other.
func TestHungProof(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.MaxBlankProofs = 1
		hung := w.device("a", 20)
		w.start()
		w.pass(5 * time.Second)
		w.disks.hang(hung)
		w.device("b", 20)
		w.look()
		w.expect("b", "Pending: ProvingBlank")
		w.pass(5 * time.Minute)
		w.expect("a", "Pending: TimedOut")
		if diff := cmp.Diff([]string{"b"}, w.published()); diff != "" {
			t.Error(diff)
		}
		w.expectProofs("a from 0", "b from 0")
		w.disks.free()
		w.pass(15 * time.Minute)
		if diff := cmp.Diff([]string{"a", "b"}, w.published()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFailedProof: after a read error the proof goes on where it failed, ever later.
func TestFailedProof(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.device("disk1", 60)
		w.start()
		w.pass(10 * time.Second)
		w.disks.fail(identity, errors.New("input/output error"))
		w.pass(2 * time.Second)
		w.expect("disk1", "Pending: Unreadable")
		if got := w.proof("disk1"); !strings.Contains(got.LastError, "input/output error") || got.Attempts != 1 {
			t.Errorf("the report says %+v of the proof", got)
		}
		w.disks.fail(identity, nil)
		w.pass(5 * time.Minute)
		if diff := cmp.Diff([]string{"disk1"}, w.published()); diff != "" {
			t.Error(diff)
		}
		reads := w.disks.proved()
		if len(reads) != 2 || reads[1] == "disk1 from 0" {
			t.Errorf("devices read: %q", reads)
		}
	})
}

// TestProofEndsWhenItIsNotNeeded: a disk that something else begins to use is let alone.
func TestProofEndsWhenItIsNotNeeded(t *testing.T) {
	inBubble(t, func(w *env) {
		w.device("disk1", 60)
		w.start()
		w.pass(5 * time.Second)
		f := w.disks.facts["disk1"]
		f.Problem = disk.Problemf(disk.InUse, "mounted at /data")
		w.disks.put(f)
		w.look()
		w.expect("disk1", "Skipped: InUse")
		if running, queued := w.provisioner.proofs.count(); running+queued != 0 {
			t.Errorf("%d proofs run and %d wait", running, queued)
		}
	})
}

// TestRetainedDeviceIsReadBeforeItIsPublished: zeros at its ends absolve no one.
func TestRetainedDeviceIsReadBeforeItIsPublished(t *testing.T) {
	inBubble(t, func(w *env) {
		w.retain()
		identity := w.device("disk1", 60)
		w.start()
		w.pass(2 * time.Minute)
		w.useAndRelease("")
		w.disks.hide(identity, 20<<20)
		w.remove()
		w.pass(10 * time.Minute)
		w.expect("disk1", "Retained: RetainedDirty")
		if diff := cmp.Diff([]string(nil), w.published()); diff != "" {
			t.Error(diff)
		}
		w.disks.show(identity)
		w.pass(10 * time.Second)
		w.pass(30 * time.Second)
		w.expect("disk1", "Retained: ProvingBlank")
		w.pass(3 * time.Minute)
		if diff := cmp.Diff([]string{"disk1"}, w.published()); diff != "" {
			t.Error(diff)
		}
	})
}

// weak has a device whose identity is valid for a boot only.
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
// its record, which says Cleaning, is found by its path only.
func TestPowerCutInACleanOfAWeakDisk(t *testing.T) {
	for name, test := range map[string]struct {
		secret bool
		ack    bool
		reason string
		want   []string
	}{
		"old bytes are left: refused, and not wiped":       {secret: true, reason: "Skipped: IdentityUnproven"},
		"old bytes are left, and acknowledged: published":  {secret: true, ack: true, reason: "Pending", want: []string{"disk1"}},
		"another disk, or a clean that got to its last MB": {reason: "Pending", want: []string{"disk1"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				first := w.weak("boot1")
				record := disk.Record{
					Identity: first, Key: disk.Key{Class: "fast", Name: "disk1"}, HostPath: folder + "/disk1", Kind: disk.Device, Mode: disk.Block, Cluster: cluster,
					State: disk.Cleaning, Volume: "local-pv-0", UID: "u", Generation: 7, Policy: disk.Delete, Step: "dd-zero 1:4194304/62914560",
				}
				if err := w.records.Put(record); err != nil {
					t.Fatal(err)
				}
				second := w.weak("boot2")
				if test.secret {
					w.disks.hide(second, 20<<20)
				}
				w.start()
				w.pass(2 * time.Minute)
				if test.ack {
					w.expect("disk1", "Skipped: IdentityUnproven")
					w.reports.mu.Lock()
					w.reports.known[node].Annotations = map[string]string{wellknown.PublishRetainedAnnotation: record.AcknowledgementAs(second)}
					w.reports.mu.Unlock()
					w.pass(retainedRecheckLast + 2*time.Second)
				}
				w.expect("disk1", test.reason)
				if diff := cmp.Diff(test.want, w.published()); diff != "" {
					t.Error(diff)
				}
				if cleaned := w.disks.cleaned(); len(cleaned) > 0 {
					t.Errorf("cleaned %q", cleaned)
				}
				_, kept, _ := w.records.Get(first)
				if kept != (test.want == nil) {
					t.Errorf("the record of the disk before is there: %t", kept)
				}
			})
		})
	}
}

// TestExistingDataCleanKeepsAPredecessor: a class that cleans unknown data does not clean a
// disk that may be the one which was at its path, while the data of that is needed, or may
// be in another cluster. It is published with its data once that is acknowledged.
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
			inBubble(t, func(w *env) {
				now := w.weak("boot2")
				w.config.Classes[0].ExistingData = provisioner.ExistingDataClean
				if test.now != "" {
					f := w.disks.facts["disk1"]
					f.Identity, now = test.now, test.now
					w.disks.put(f)
				}
				w.disks.write(now, "ext4")
				record := test.record
				record.Identity, record.Key, record.HostPath, record.Kind, record.Mode = "weak:boot1:1", disk.Key{Class: "fast", Name: "disk1"}, folder+"/disk1", disk.Device, disk.Block
				record.Volume, record.UID, record.Generation = "local-pv-0", "u", 7
				if record.Cluster == "" {
					record.Cluster = cluster
				}
				if err := w.records.Put(record); err != nil {
					t.Fatal(err)
				}
				w.start()
				w.pass(48 * time.Hour)
				w.expect("disk1", "Skipped: "+test.reason)
				w.annotate(wellknown.PublishRetainedAnnotation, record.AcknowledgementAs(now))
				w.pass(time.Minute)
				if pv := w.volume(); pv == nil {
					t.Error("acknowledged, and not published")
				}
				if got := w.disks.cleaned(); len(got) > 0 || w.disks.read(now) != "ext4" {
					t.Errorf("cleaned %q, data %q", got, w.disks.read(now))
				}
			})
		})
	}
}
