// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/loop"
)

// ownedVolume is a volume as the provisioner of a node publishes it.
func ownedVolume(name, node, identity string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: name, Finalizers: []string{wellknown.LocalVolumeFinalizer}, Labels: map[string]string{wellknown.NodeLabel: localpv.NodeHash(node)},
		Annotations: map[string]string{wellknown.NodeNameAnnotation: node, wellknown.DiskIdentityAnnotation: identity, localpv.ProvisionedByAnnotation: localpv.ProvisionedBy(node)},
	}}
}

// TestLaterVolumes: whether a later volume of a disk resolves its tombstone in the report of node
// lost.
func TestLaterVolumes(t *testing.T) {
	t.Parallel()
	has := func(volume, identity string, state stowage.EntryState) []stowage.Entry {
		return []stowage.Entry{{Identity: "wwn:other", Volume: "other"}, {Volume: volume, Identity: identity, State: state}}
	}
	for name, tc := range map[string]struct {
		node    string
		entries []stowage.Entry
		state   stowage.TombstoneState
		want    bool
	}{
		"its node has the disk":                          {node: "a", entries: has("pv", "wwn:1", stowage.EntryBound), want: true},
		"its node had the disk":                          {node: "a", entries: has("pv", "wwn:1", stowage.EntryMissing), want: true},
		"its node does not say so":                       {node: "a"},
		"its node says so of another disk":               {node: "a", entries: has("pv", "wwn:2", stowage.EntryBound)},
		"its node has the disk, without this volume":     {node: "a", entries: has("", "wwn:1", stowage.EntrySkipped)},
		"of the lost node itself":                        {node: "lost", want: true},
		"its node has the disk, whose data was retained": {node: "a", entries: has("pv", "wwn:1", stowage.EntryBound), state: stowage.TombstoneRetained},
		"of the lost node, which retained the data":      {node: "lost", state: stowage.TombstoneRetained},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := ofDisks()
			c.sweeps, c.queue = loop.NewQueue("sweeps", retryFirst, retryLast), loop.NewQueue("volumes", retryFirst, retryLast)
			defer c.sweeps.ShutDown()
			defer c.queue.ShutDown()
			since := metav1.NewTime(time.Now().Add(-time.Hour))
			tombstone := stowage.Tombstone{Identity: "wwn:1", VolumeUID: "old", Since: &since, State: tc.state}
			lost := &stowage.LocalDiskReport{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: stowage.LocalDiskReportSpec{NodeName: "lost", Page: 1}}
			setTombstone(lost, tombstone)
			volume := ownedVolume("pv", tc.node, "wwn:1")
			volume.CreationTimestamp = metav1.Now()
			report := &stowage.LocalDiskReport{
				ObjectMeta: metav1.ObjectMeta{Name: "a.page-2"}, Spec: stowage.LocalDiskReportSpec{NodeName: "a", Page: 2},
				Status: stowage.LocalDiskReportStatus{Entries: tc.entries},
			}
			first := &stowage.LocalDiskReport{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: stowage.LocalDiskReportSpec{NodeName: "a", Page: 1}}
			store := c.ReportInformer.GetIndexer()
			if err := errors.Join(c.volumes.GetIndexer().Add(volume), store.Add(lost), store.Add(first), store.Add(report)); err != nil {
				t.Fatal(err)
			}
			if got := c.resolved(tombstone, "lost"); got != tc.want {
				t.Errorf("resolved is %t, want %t", got, tc.want)
			}
			if c.reportChanged(nil, report); tc.want && tc.node == "a" && tc.entries[1].State != stowage.EntryMissing && c.sweeps.Len() == 0 {
				t.Error("the report requests no sweep")
			}
		})
	}
}

// TestVolumesRequestSweeps: changes of volumes request a sweep, even if the volume was bound before
// it was observed as Available.
func TestVolumesRequestSweeps(t *testing.T) {
	t.Parallel()
	bound := ownedVolume("pv", "a", "wwn:1")
	bound.Status.Phase = corev1.VolumeBound
	others := ownedVolume("pv", "a", "wwn:1")
	others.Finalizers = nil
	for name, tc := range map[string]struct {
		volume *corev1.PersistentVolume
		want   int
	}{
		"bound":                   {bound, 1},
		"without a disk identity": {ownedVolume("pv", "a", ""), 0},
		"of others":               {others, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := ofDisks()
			c.sweeps, c.queue = loop.NewQueue("sweeps", retryFirst, retryLast), loop.NewQueue("volumes", retryFirst, retryLast)
			defer c.sweeps.ShutDown()
			defer c.queue.ShutDown()
			c.volumeChanged(nil, tc.volume)
			if got := c.sweeps.Len(); got != tc.want {
				t.Errorf("%d sweeps are requested, want %d", got, tc.want)
			}
		})
	}
}
