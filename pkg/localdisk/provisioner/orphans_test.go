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

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
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

// vanish removes the only volume without its finalizer, as a restore of etcd or a forced
// deletion does.
func (e *env) vanish() {
	e.t.Helper()
	if err := e.api.Tracker().Delete(volumesResource, "", e.volume().Name); err != nil {
		e.t.Fatal(err)
	}
	e.pass(3 * time.Second)
}

// inPhase sets the phase of the only volume, and writes data to its disk when it is Bound.
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

// record returns the record of the disk.
func (e *env) record(identity disk.Identity) disk.Record {
	e.t.Helper()
	r, ok, err := e.records.Get(identity)
	if err != nil || !ok {
		e.t.Fatalf("record of %s: %t, %v", identity, ok, err)
	}
	return r
}

// joinCluster joins the node to a new cluster. The provisioner is not running.
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
// record another cluster wrote. The disk is Retained in the report, so that the controller
// writes no tombstone of it, also if a volume here has the name of its volume.
func TestTombstonesOfAnotherCluster(t *testing.T) {
	for _, phase := range []corev1.PersistentVolumePhase{corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased} {
		for name, restored := range map[string]bool{"without a volume": false, "with a volume of the same name": true} {
			t.Run(string(phase)+" "+name, func(t *testing.T) {
				inBubble(t, func(e *env) {
					identity := e.disks.add("disk1", "")
					e.start()
					e.inPhase(identity, phase)
					e.disks.write(identity, "of the other cluster")
					pv := e.volume()
					e.stop()
					e.disks.cleaned()
					e.joinCluster("cluster-2")
					if restored {
						pv.UID, pv.Status.Phase = "restored", corev1.VolumeBound
						if err := e.api.Tracker().Create(volumesResource, pv, ""); err != nil {
							t.Fatal(err)
						}
					}
					e.addTombstone(identity, stowage.TombstonePublished)
					e.start()
					e.pass(48 * time.Hour)
					if got := e.disks.cleaned(); len(got) > 0 || e.disks.read(identity) == "" {
						t.Errorf("cleaned %q", got)
					}
					stones := e.reports.known[node].Status.Tombstones
					if len(stones) != 1 || stones[0].Identity != string(identity) || stones[0].State != stowage.TombstoneRetained || restored && stones[0].VolumeUID == string(e.volume().UID) {
						t.Errorf("the report's tombstones are %+v, want a retained one of the volume of the other cluster", stones)
					}
				})
			})
		}
	}
}

// TestNodeJoinsAnotherCluster: after kubeadm reset the node still has its records and disks.
// Nothing is cleaned or published, whatever existingData is, until an administrator
// acknowledges it.
func TestNodeJoinsAnotherCluster(t *testing.T) {
	for _, existing := range []provisioner.ExistingData{provisioner.ExistingDataRefuse, provisioner.ExistingDataClean, provisioner.ExistingDataPublish} {
		for _, phase := range []corev1.PersistentVolumePhase{corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased} {
			t.Run(string(existing)+" "+string(phase), func(t *testing.T) {
				inBubble(t, func(e *env) {
					configure(e.config, func(c *provisioner.Class) { c.ExistingData = existing })
					identity := e.disks.add("disk1", "")
					e.start()
					e.inPhase(identity, phase)
					e.stop()
					before := e.record(identity)
					data := e.disks.read(identity)
					e.disks.cleaned()

					e.joinCluster("cluster-2")
					e.start()
					e.pass(48 * time.Hour)
					e.expect("disk1", "Retained: OtherCluster")
					if pv := e.volume(); pv != nil || len(e.disks.cleaned()) > 0 || e.disks.read(identity) != data {
						t.Fatalf("volume %v over data %q, want none over %q", pv, e.disks.read(identity), data)
					}
					if got := e.events.take(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning OtherCluster: ") {
						t.Errorf("events %q, want one with the reason", got)
					}
					if before.Cluster != cluster || e.record(identity).Cluster != cluster {
						t.Errorf("the record is of cluster %q, then %q", before.Cluster, e.record(identity).Cluster)
					}

					e.annotate(wellknown.PublishRetainedAnnotation, before.Acknowledgement())
					e.pass(time.Minute)
					if pv := e.volume(); pv == nil || e.disks.read(identity) != data || e.record(identity).Cluster != "cluster-2" {
						t.Errorf("acknowledged: volume %v, data %q, record %+v", pv, e.disks.read(identity), e.record(identity))
					}
				})
			})
		}
	}
}

// TestBoundVolumeVanishes: etcd was restored to a time before the volume, or its
// finalizer was removed by force. Its data is kept until an administrator acknowledges it.
func TestBoundVolumeVanishes(t *testing.T) {
	inBubble(t, func(e *env) {
		configure(e.config, func(c *provisioner.Class) { c.ExistingData = provisioner.ExistingDataClean })
		identity := e.disks.add("disk1", "")
		e.start()
		e.inPhase(identity, corev1.VolumeBound)
		first := e.volume()
		e.vanish()
		e.start()
		e.annotate(wellknown.CleanOrphansAnnotation, string(identity)+"/"+string(first.UID))
		e.pass(48 * time.Hour)
		e.expect("disk1", "Retained: VolumeVanished")
		if pv := e.volume(); pv != nil || len(e.disks.cleaned()) > 0 {
			t.Fatalf("volume %v, disk cleaned: want neither", pv)
		}
		e.annotate(wellknown.PublishRetainedAnnotation, string(identity)+"/"+string(first.UID))
		e.pass(time.Minute)
		second := e.volume()
		if second == nil || second.Name == first.Name || e.disks.read(identity) == "" {
			t.Fatalf("acknowledged: volume %v over data %q, want another one over the data", second, e.disks.read(identity))
		}
		e.phase(corev1.VolumeBound)
		e.vanish()
		e.pass(48 * time.Hour)
		e.expect("disk1", "Retained: VolumeVanished")
	})
}

// TestVanishedVolumeIsBack: etcd was restored, and then restored again, to a later time.
func TestVanishedVolumeIsBack(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.start()
		e.inPhase(identity, corev1.VolumeBound)
		pv := e.volume()
		e.vanish()
		e.pass(time.Hour)
		e.expect("disk1", "Retained: VolumeVanished")
		if err := e.api.Tracker().Create(volumesResource, e.api.renew(pv), ""); err != nil {
			t.Fatal(err)
		}
		e.pass(time.Minute)
		e.expect("disk1", "Bound")
		if r := e.record(identity); r.State != disk.Published || r.Volume != pv.Name || r.Phase != disk.PhaseBound {
			t.Errorf("record %+v, want that of the volume", r)
		}
	})
}

// TestOlderVolumeIsBack: etcd was restored to a time when an older volume of the disk was
// Bound. The data of a later volume is neither cleaned as its data nor lost.
func TestOlderVolumeIsBack(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.start()
		e.inPhase(identity, corev1.VolumeBound)
		older := e.volume()
		e.phase(corev1.VolumeReleased)
		e.pass(time.Minute)
		e.inPhase(identity, corev1.VolumeBound)
		later := e.volume()
		if later.UID == older.UID {
			t.Fatal("the disk was not published again")
		}
		e.stop()
		e.disks.cleaned()
		if err := e.api.Tracker().Delete(volumesResource, "", later.Name); err != nil {
			t.Fatal(err)
		}
		if err := e.api.Tracker().Create(volumesResource, e.api.renew(older), ""); err != nil {
			t.Fatal(err)
		}
		e.start()
		e.pass(time.Hour)
		e.expect("disk1", "Bound: VolumeVanished")
		e.phase(corev1.VolumeReleased)
		e.pass(48 * time.Hour)
		e.expect("disk1", "Released: VolumeVanished")
		if e.disks.read(identity) == "" || len(e.disks.cleaned()) > 0 {
			t.Error("the data of the later volume was removed")
		}
		if r := e.record(identity); r.UID != string(later.UID) {
			t.Errorf("the record is of volume %s, want %s", r.UID, later.UID)
		}
		e.annotate(wellknown.PublishRetainedAnnotation, string(identity)+"/"+string(later.UID))
		e.pass(time.Hour)
		if e.disks.read(identity) != "" {
			t.Error("acknowledged, but the disk of the released volume was not cleaned")
		}
	})
}

// TestReleasedVolumeVanishes: its disk is cleaned after the grace period, which continues over
// restarts, once the controller allows it.
func TestReleasedVolumeVanishes(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.start()
		e.inPhase(identity, corev1.VolumeReleased)
		first := e.volume()
		e.vanish()
		e.expect("disk1", "Cleaning: OrphanGracePeriod")
		e.pass(5 * time.Minute)
		e.start()
		e.annotate(wellknown.CleanOrphansAnnotation, rules.FormatGrants([]rules.Grant{{Data: string(identity) + "/of-another-volume", At: time.Now()}}))
		e.pass(4 * time.Minute)
		e.expect("disk1", "Cleaning: OrphanGracePeriod")
		e.pass(time.Minute)
		e.expect("disk1", "Cleaning: OrphanCleanWaits")
		e.pass(24 * time.Hour)
		if len(e.disks.cleaned()) > 0 || e.disks.read(identity) == "" {
			t.Fatal("the disk was cleaned before the controller allowed it")
		}
		if got := entryOf(e.provisioner, "disk1").Acknowledgement; got != string(identity)+"/"+string(first.UID) {
			t.Errorf("the report names the data %q", got)
		}
		e.annotate(wellknown.CleanOrphansAnnotation, rules.FormatGrants([]rules.Grant{{Data: string(identity) + "/" + string(first.UID), At: time.Now()}}))
		e.pass(time.Minute)
		if pv := e.volume(); pv == nil || pv.Name == first.Name || e.disks.read(identity) != "" {
			t.Errorf("volume %v over data %q, want another one over none", pv, e.disks.read(identity))
		}
	})
}

// TestGraceOfAnEarlierConfiguration: a shorter grace period applies to volumes that were
// removed before, and until it is over the data can be acknowledged.
func TestGraceOfAnEarlierConfiguration(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.start()
		e.inPhase(identity, corev1.VolumeReleased)
		first := e.volume()
		e.vanish()
		config := *e.config
		config.OrphanGracePeriod = duration(time.Second)
		e.provisioner.Configure(context.Background(), &config)
		e.pass(3 * time.Second)
		e.expect("disk1", "Cleaning: OrphanCleanWaits")
		e.annotate(wellknown.PublishRetainedAnnotation, string(identity)+"/"+string(first.UID))
		e.pass(time.Minute)
		if pv := e.volume(); pv == nil || pv.Name == first.Name || e.disks.read(identity) == "" {
			t.Errorf("acknowledged: volume %v over data %q, want another one over the data", pv, e.disks.read(identity))
		}
	})
}

// TestAvailableVolumeVanishes: an empty disk is published again without being cleaned. One
// with data, which the provisioner cannot account for, is kept.
func TestAvailableVolumeVanishes(t *testing.T) {
	for data, want := range map[string]string{"": "Pending", "of another claim": "Retained: VolumeVanished"} {
		inBubble(t, func(e *env) {
			identity := e.disks.add("disk1", "")
			e.start()
			e.inPhase(identity, corev1.VolumeAvailable)
			e.disks.write(identity, data)
			e.vanish()
			e.pass(time.Minute)
			e.expect("disk1", want)
			if e.disks.read(identity) != data || len(e.disks.cleaned()) > 0 || (e.volume() == nil) != (data != "") {
				t.Errorf("data %q: volume %v over data %q", data, e.volume(), e.disks.read(identity))
			}
		})
	}
}

// TestOldBytesOfAnAvailableDevice: bytes that a clean for a file system has left prevent the
// device from being published again only if pods can read them.
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
			inBubble(t, func(e *env) {
				configure(e.config, func(c *provisioner.Class) { c.VolumeMode = tc.mode })
				identity := e.device("disk1", 1)
				e.start()
				e.pass(time.Minute)
				e.inPhase(identity, corev1.VolumeAvailable)
				e.disks.write(identity, tc.data)
				e.vanish()
				e.pass(time.Minute)
				e.expect("disk1", tc.want)
				if e.disks.read(identity) != tc.data || len(e.disks.cleaned()) > 0 || (e.volume() == nil) != (tc.want != "Pending") {
					t.Errorf("volume %v over data %q", e.volume(), e.disks.read(identity))
				}
			})
		})
	}
}

// TestVolumeReleasedByTheController: the node was lost, the controller released the Bound
// volume and removed it, and the node returns. The tombstone has the controller's decision.
func TestVolumeReleasedByTheController(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.start()
		e.inPhase(identity, corev1.VolumeBound)
		first := e.volume()
		e.stop()
		e.tombstones.add(node, stowage.Tombstone{
			Identity: string(identity), Class: "fast", Name: "disk1", Volume: first.Name, VolumeUID: string(first.UID), Generation: 1, State: stowage.TombstonePublished,
		})
		e.vanish()
		e.start()
		e.pass(time.Minute)
		if pv := e.volume(); pv == nil || pv.Name == first.Name || e.disks.read(identity) != "" {
			t.Errorf("volume %v over data %q, want another one over none", pv, e.disks.read(identity))
		}
	})
}

func entryOf(a *Provisioner, name string) stowage.Entry {
	for _, e := range a.status.Entries() {
		if e.Name == name {
			return e
		}
	}
	return stowage.Entry{}
}
