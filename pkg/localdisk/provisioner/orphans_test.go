// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/apis/provisioner"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/orphancleans/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// annotate writes an annotation to the first page of the node's report, as an
// administrator or the controller does.
func (e *env) annotate(key, value string) {
	e.t.Helper()
	e.reports.mu.Lock()
	defer e.reports.mu.Unlock()
	report := e.reports.known[node]
	if report == nil {
		e.t.Fatal("there is no report")
	}
	metav1.SetMetaDataAnnotation(&report.ObjectMeta, key, value)
}

// vanish removes the only volume without a trace, as a restore of etcd or a forced
// deletion does.
func (e *env) vanish() {
	e.t.Helper()
	if err := e.api.Tracker().Delete(volumesResource, "", e.volume().Name); err != nil {
		e.t.Fatal(err)
	}
	e.pass(3 * time.Second)
}

// inPhase has the only volume of a disk observed in a phase, with data on the disk from
// when it is Bound.
func (e *env) inPhase(identity disk.Identity, phase corev1.PersistentVolumePhase) {
	e.t.Helper()
	e.phase(corev1.VolumeAvailable)
	if phase == corev1.VolumeAvailable {
		return
	}
	e.phase(corev1.VolumeBound)
	e.disks.write(identity, "of its user")
	if phase == corev1.VolumeReleased { // in use still, so that it is not cleaned
		e.disks.mu.Lock()
		e.disks.users[identity] = []disk.User{{What: "kubelet", Where: "/var/lib/kubelet/pods/1"}}
		e.disks.mu.Unlock()
		e.phase(corev1.VolumeReleased)
		e.disks.mu.Lock()
		delete(e.disks.users, identity)
		e.disks.mu.Unlock()
	}
}

// record is what the node remembers of the disk.
func (e *env) record(identity disk.Identity) disk.Record {
	e.t.Helper()
	r, ok, err := e.records.Get(identity)
	if err != nil || !ok {
		e.t.Fatalf("record of %s: %t, %v", identity, ok, err)
	}
	return r
}

// join has the node, whose agent is stopped, join another cluster, which is new.
func (e *env) joinCluster(uid types.UID) {
	e.api = newAPI(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "second", Labels: map[string]string{corev1.LabelHostname: node}}},
		class("fast", corev1.PersistentVolumeReclaimDelete),
	)
	e.reports = newReports()
	e.events.take()
}

// TestTombstonesOfAnotherCluster: a tombstone of this cluster does not clean a disk whose
// record another cluster wrote. The report has such a disk as retained, so that the
// controller writes no tombstone of it, also where a volume here has the name of its volume.
func TestTombstonesOfAnotherCluster(t *testing.T) {
	for _, phase := range []corev1.PersistentVolumePhase{corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased} {
		for name, restored := range map[string]bool{"without a volume": false, "with a volume of the same name": true} {
			t.Run(string(phase)+" "+name, func(t *testing.T) {
				inBubble(t, func(w *env) {
					identity := w.disks.add("disk1", "")
					w.start()
					w.inPhase(identity, phase)
					w.disks.write(identity, "of the other cluster")
					pv := w.volume()
					w.stop()
					w.disks.cleaned()
					w.joinCluster("cluster-2")
					if restored {
						pv.UID, pv.Status.Phase = "restored", corev1.VolumeBound
						if err := w.api.Tracker().Create(volumesResource, pv, ""); err != nil {
							t.Fatal(err)
						}
					}
					w.addTombstone(identity, stowage.TombstonePublished)
					w.start()
					w.pass(48 * time.Hour)
					if got := w.disks.cleaned(); len(got) > 0 || w.disks.read(identity) == "" {
						t.Errorf("cleaned %q", got)
					}
					stones := w.reports.known[node].Status.Tombstones
					if len(stones) != 1 || stones[0].Identity != string(identity) || stones[0].State != stowage.TombstoneRetained || restored && stones[0].VolumeUID == string(w.volume().UID) {
						t.Errorf("the report's tombstones are %+v, want a retained one of the volume of the other cluster", stones)
					}
				})
			})
		}
	}
}

// TestNodeJoinsAnotherCluster: after kubeadm reset the node brings its records and its
// disks along. Nothing is cleaned nor published, whatever existingData says, until an
// administrator acknowledges it.
func TestNodeJoinsAnotherCluster(t *testing.T) {
	for _, existing := range []provisioner.ExistingData{provisioner.ExistingDataRefuse, provisioner.ExistingDataClean, provisioner.ExistingDataPublish} {
		for _, phase := range []corev1.PersistentVolumePhase{corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased} {
			t.Run(string(existing)+" "+string(phase), func(t *testing.T) {
				inBubble(t, func(w *env) {
					w.config.Classes[0].ExistingData = existing
					identity := w.disks.add("disk1", "")
					w.start()
					w.inPhase(identity, phase)
					w.stop()
					before := w.record(identity)
					data := w.disks.read(identity)
					w.disks.cleaned()

					w.joinCluster("cluster-2")
					w.start()
					w.pass(48 * time.Hour)
					w.expect("disk1", "Retained: OtherCluster")
					if pv := w.volume(); pv != nil || len(w.disks.cleaned()) > 0 || w.disks.read(identity) != data {
						t.Fatalf("volume %v over data %q, want none over %q", pv, w.disks.read(identity), data)
					}
					if got := w.events.take(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning OtherCluster: ") {
						t.Errorf("events %q, want one that says why", got)
					}
					if before.Cluster != cluster || w.record(identity).Cluster != cluster {
						t.Errorf("the record is of cluster %q, then %q", before.Cluster, w.record(identity).Cluster)
					}

					w.annotate(wellknown.PublishRetainedAnnotation, before.Acknowledgement())
					w.pass(time.Minute)
					if pv := w.volume(); pv == nil || w.disks.read(identity) != data || w.record(identity).Cluster != "cluster-2" {
						t.Errorf("acknowledged: volume %v, data %q, record %+v", pv, w.disks.read(identity), w.record(identity))
					}
				})
			})
		}
	}
}

// TestBoundVolumeVanishes: etcd was restored to a time before the volume, or its
// finalizer was removed by force. Its data stays until an administrator acknowledges it.
func TestBoundVolumeVanishes(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.Classes[0].ExistingData = provisioner.ExistingDataClean
		identity := w.disks.add("disk1", "")
		w.start()
		w.inPhase(identity, corev1.VolumeBound)
		first := w.volume()
		w.vanish()
		w.start()
		w.annotate(wellknown.CleanOrphansAnnotation, string(identity)+"/"+string(first.UID))
		w.pass(48 * time.Hour)
		w.expect("disk1", "Retained: VolumeVanished")
		if pv := w.volume(); pv != nil || len(w.disks.cleaned()) > 0 {
			t.Fatalf("volume %v, disk cleaned: want neither", pv)
		}
		w.annotate(wellknown.PublishRetainedAnnotation, string(identity)+"/"+string(first.UID))
		w.pass(time.Minute)
		second := w.volume()
		if second == nil || second.Name == first.Name || w.disks.read(identity) == "" {
			t.Fatalf("acknowledged: volume %v over data %q, want another one over the data", second, w.disks.read(identity))
		}
		w.phase(corev1.VolumeBound)
		w.vanish()
		w.pass(48 * time.Hour)
		w.expect("disk1", "Retained: VolumeVanished")
	})
}

// TestVanishedVolumeIsBack: etcd was restored, and then restored again, to a later time.
func TestVanishedVolumeIsBack(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.start()
		w.inPhase(identity, corev1.VolumeBound)
		pv := w.volume()
		w.vanish()
		w.pass(time.Hour)
		w.expect("disk1", "Retained: VolumeVanished")
		if err := w.api.Tracker().Create(volumesResource, w.api.renew(pv), ""); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.expect("disk1", "Bound")
		if r := w.record(identity); r.State != disk.Published || r.Volume != pv.Name || r.Phase != disk.PhaseBound {
			t.Errorf("record %+v, want that of the volume", r)
		}
	})
}

// TestOlderVolumeIsBack: etcd was restored to a time when an older volume of the disk was
// Bound. What a later one has written since is neither handed to it for cleaning nor
// forgotten.
func TestOlderVolumeIsBack(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.start()
		w.inPhase(identity, corev1.VolumeBound)
		older := w.volume()
		w.phase(corev1.VolumeReleased)
		w.pass(time.Minute)
		w.inPhase(identity, corev1.VolumeBound)
		later := w.volume()
		if later.UID == older.UID {
			t.Fatal("the disk was not published again")
		}
		w.stop()
		w.disks.cleaned()
		if err := w.api.Tracker().Delete(volumesResource, "", later.Name); err != nil {
			t.Fatal(err)
		}
		if err := w.api.Tracker().Create(volumesResource, w.api.renew(older), ""); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.pass(time.Hour)
		w.expect("disk1", "Bound: VolumeVanished")
		w.phase(corev1.VolumeReleased)
		w.pass(48 * time.Hour)
		w.expect("disk1", "Released: VolumeVanished")
		if w.disks.read(identity) == "" || len(w.disks.cleaned()) > 0 {
			t.Error("the data of the later volume was removed")
		}
		if r := w.record(identity); r.UID != string(later.UID) {
			t.Errorf("the record is of volume %s, want %s", r.UID, later.UID)
		}
		w.annotate(wellknown.PublishRetainedAnnotation, string(identity)+"/"+string(later.UID))
		w.pass(time.Hour)
		if w.disks.read(identity) != "" {
			t.Error("acknowledged, and the disk of the released volume was not cleaned")
		}
	})
}

// TestReleasedVolumeVanishes: its disk is cleaned after the grace period, which goes on
// over restarts, once the controller allows it.
func TestReleasedVolumeVanishes(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.start()
		w.inPhase(identity, corev1.VolumeReleased)
		first := w.volume()
		w.vanish()
		w.expect("disk1", "Cleaning: OrphanGracePeriod")
		w.pass(5 * time.Minute)
		w.start()
		w.annotate(wellknown.CleanOrphansAnnotation, rules.FormatGrants([]rules.Grant{{Data: string(identity) + "/of-another-volume", At: time.Now()}}))
		w.pass(4 * time.Minute)
		w.expect("disk1", "Cleaning: OrphanGracePeriod")
		w.pass(time.Minute)
		w.expect("disk1", "Cleaning: OrphanCleanWaits")
		w.pass(24 * time.Hour)
		if len(w.disks.cleaned()) > 0 || w.disks.read(identity) == "" {
			t.Fatal("the disk was cleaned before the controller allowed it")
		}
		if got := entryOf(w.provisioner, "disk1").Acknowledgement; got != string(identity)+"/"+string(first.UID) {
			t.Errorf("the report names the data %q", got)
		}
		w.annotate(wellknown.CleanOrphansAnnotation, rules.FormatGrants([]rules.Grant{{Data: string(identity) + "/" + string(first.UID), At: time.Now()}}))
		w.pass(time.Minute)
		if pv := w.volume(); pv == nil || pv.Name == first.Name || w.disks.read(identity) != "" {
			t.Errorf("volume %v over data %q, want another one over none", pv, w.disks.read(identity))
		}
	})
}

// TestGraceOfAnEarlierConfiguration: a shorter grace period holds for volumes that are gone
// already, and keeping the data is possible until it is over.
func TestGraceOfAnEarlierConfiguration(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.start()
		w.inPhase(identity, corev1.VolumeReleased)
		first := w.volume()
		w.vanish()
		config := *w.config
		config.OrphanGracePeriod = time.Second
		w.provisioner.Configure(context.Background(), &config)
		w.pass(3 * time.Second)
		w.expect("disk1", "Cleaning: OrphanCleanWaits")
		w.annotate(wellknown.PublishRetainedAnnotation, string(identity)+"/"+string(first.UID))
		w.pass(time.Minute)
		if pv := w.volume(); pv == nil || pv.Name == first.Name || w.disks.read(identity) == "" {
			t.Errorf("acknowledged: volume %v over data %q, want another one over the data", pv, w.disks.read(identity))
		}
	})
}

// TestAvailableVolumeVanishes: an empty disk is published again without being cleaned. One
// with data, which the provisioner cannot account for, is kept.
func TestAvailableVolumeVanishes(t *testing.T) {
	for data, want := range map[string]string{"": "Pending", "of whoever bound it meanwhile": "Retained: VolumeVanished"} {
		inBubble(t, func(w *env) {
			identity := w.disks.add("disk1", "")
			w.start()
			w.inPhase(identity, corev1.VolumeAvailable)
			w.disks.write(identity, data)
			w.vanish()
			w.pass(time.Minute)
			w.expect("disk1", want)
			if w.disks.read(identity) != data || len(w.disks.cleaned()) > 0 || (w.volume() == nil) != (data != "") {
				t.Errorf("data %q: volume %v over data %q", data, w.volume(), w.disks.read(identity))
			}
		})
	}
}

// TestOldBytesOfAnAvailableDevice: what a clean for a file system has left keeps the device
// from being published again only where pods can read it.
func TestOldBytesOfAnAvailableDevice(t *testing.T) {
	for name, tc := range map[string]struct {
		mode corev1.PersistentVolumeMode
		data string
		want string
	}{
		"old bytes":                     {corev1.PersistentVolumeFilesystem, oldBytes, "Pending"},
		"old bytes, for a Block volume": {corev1.PersistentVolumeBlock, oldBytes, "Retained: VolumeVanished"},
		"a file system":                 {corev1.PersistentVolumeFilesystem, "ext4", "Retained: VolumeVanished"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				w.config.Classes[0].VolumeMode = tc.mode
				identity := w.device("disk1", 1)
				w.start()
				w.pass(time.Minute)
				w.inPhase(identity, corev1.VolumeAvailable)
				w.disks.write(identity, tc.data)
				w.vanish()
				w.pass(time.Minute)
				w.expect("disk1", tc.want)
				if w.disks.read(identity) != tc.data || len(w.disks.cleaned()) > 0 || (w.volume() == nil) != (tc.want != "Pending") {
					t.Errorf("volume %v over data %q", w.volume(), w.disks.read(identity))
				}
			})
		})
	}
}

// TestVolumeReleasedByTheController: the node was lost, the controller released the Bound
// volume and removed it, and the node is back. It knows by the tombstone that the volume
// was given up.
func TestVolumeReleasedByTheController(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.start()
		w.inPhase(identity, corev1.VolumeBound)
		first := w.volume()
		w.stop()
		w.reports.mu.Lock()
		w.reports.put(&stowage.LocalDiskReport{
			ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{wellknown.TombstonesLabel: wellknown.TombstonesValue}},
			Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1, Tombstones: []stowage.Tombstone{{
				Identity: string(identity), Class: "fast", Name: "disk1", Volume: first.Name, VolumeUID: string(first.UID), Generation: 1, State: stowage.TombstonePublished,
			}}},
		})
		w.reports.mu.Unlock()
		w.vanish()
		w.start()
		w.pass(time.Minute)
		if pv := w.volume(); pv == nil || pv.Name == first.Name || w.disks.read(identity) != "" {
			t.Errorf("volume %v over data %q, want another one over none", pv, w.disks.read(identity))
		}
	})
}

func entryOf(a *Provisioner, name string) stowage.Entry {
	for _, e := range a.status.all() {
		if e.Name == name {
			return e
		}
	}
	return stowage.Entry{}
}
