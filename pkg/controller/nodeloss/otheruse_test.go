// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/loop"
)

// ofDisks returns a controller with empty informers, and the indexer of nodes.
func ofDisks() (*Controller, cache.Indexer) {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	reports := cache.NewSharedIndexInformer(&cache.ListWatch{}, &stowage.LocalDiskReport{}, 0, reportIndexes())
	volumes := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.PersistentVolume{}, 0, volumeIndexes(owned))
	tombstones := cache.NewSharedIndexInformer(&cache.ListWatch{}, &stowage.LocalDiskTombstone{}, 0, tombstoneIndexes())
	return &Controller{Config: Config{ReportInformer: reports, TombstoneInformer: tombstones}, nodes: corelisters.NewNodeLister(nodes), volumes: volumes}, nodes
}

// TestDiskOfAnother: node a has a volume of a disk that it does not have. No tombstone is written
// while something else may use the disk.
func TestDiskOfAnother(t *testing.T) {
	t.Parallel()
	report := func(node string, change func(*stowage.LocalDiskReportStatus)) *stowage.LocalDiskReport {
		r := &stowage.LocalDiskReport{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1}}
		change(&r.Status)
		return r
	}
	entry := func(state stowage.EntryState) func(*stowage.LocalDiskReportStatus) {
		return func(s *stowage.LocalDiskReportStatus) { s.Entries = []stowage.Entry{{Identity: "wwn:1", State: state}} }
	}
	remembers := func(state stowage.TombstoneState, volume string) func(*stowage.LocalDiskReportStatus) {
		return func(s *stowage.LocalDiskReportStatus) {
			s.Tombstones = []stowage.Tombstone{{Identity: "wwn:1", State: state, VolumeUID: volume}}
		}
	}
	adopted := ownedVolume("theirs", "b", "wwn:1")
	adopted.Finalizers, adopted.Labels = nil, nil
	for name, tc := range map[string]struct {
		gone   bool // node b
		volume *corev1.PersistentVolume
		report *stowage.LocalDiskReport
		want   string
	}{
		"nothing says so":                       {},
		"a volume of a node that is gone":       {gone: true, volume: ownedVolume("theirs", "b", "wwn:1"), want: "volume theirs of node b"},
		"a volume of a node that misses it":     {volume: ownedVolume("theirs", "b", "wwn:1"), report: report("b", entry(stowage.EntryMissing)), want: "volume theirs of node b"},
		"a volume that nothing of owned holds":  {volume: adopted, want: "volume theirs of node b"},
		"another volume of the same node":       {volume: ownedVolume("theirs", "a", "wwn:1")},
		"a volume of another disk":              {volume: ownedVolume("theirs", "b", "wwn:2")},
		"a report of a node that is there":      {report: report("b", entry(stowage.EntryBound)), want: "node b reports that"},
		"a report of a node that is gone":       {gone: true, report: report("b", entry(stowage.EntryBound))},
		"retained by a node, though it is gone": {gone: true, report: report("b", remembers(stowage.TombstoneRetained, "theirs")), want: "node b retains the data"},
		"remembered to be cleaned":              {report: report("b", remembers(stowage.TombstonePublished, "theirs"))},
		"retained by the same node":             {report: report("a", remembers(stowage.TombstoneRetained, "uid"))},
		"retained by the same node, for a volume of another cluster": {
			report: report("a", remembers(stowage.TombstoneRetained, "theirs")), want: "node a retains the data",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, nodes := ofDisks()
			err := c.volumes.GetIndexer().Add(ownedVolume("pv", "a", "wwn:1"))
			if !tc.gone {
				err = errors.Join(err, nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}))
			}
			if tc.volume != nil {
				err = errors.Join(err, c.volumes.GetIndexer().Add(tc.volume))
			}
			if tc.report != nil {
				err = errors.Join(err, c.ReportInformer.GetIndexer().Add(tc.report))
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.otherUse("wwn:1", "a", "uid"); !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("the disk is claimed as %q, want %q", got, tc.want)
			}
		})
	}
}

// TestVolumesOfSameDiskAreEnqueued: a change of a volume enqueues the other volumes of its disk.
func TestVolumesOfSameDiskAreEnqueued(t *testing.T) {
	t.Parallel()
	changed := ownedVolume("theirs", "b", "wwn:1")
	changed.Status.Phase = corev1.VolumeReleased
	for name, tc := range map[string]struct {
		old, object any
		want        bool
	}{
		"has come, or is gone":       {nil, ownedVolume("theirs", "b", "wwn:1"), true},
		"was of another disk before": {ownedVolume("theirs", "b", "wwn:2"), ownedVolume("theirs", "b", "wwn:1"), true},
		"is of another disk now":     {ownedVolume("theirs", "b", "wwn:1"), ownedVolume("theirs", "b", "wwn:2"), true},
		"is of another disk":         {nil, ownedVolume("theirs", "b", "wwn:2"), false},
		"is as it was":               {ownedVolume("theirs", "b", "wwn:1"), changed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := ofDisks()
			c.sweeps, c.queue = loop.NewQueue("sweeps", retryFirst, retryLast), loop.NewQueue("volumes", retryFirst, retryLast)
			defer c.sweeps.ShutDown()
			defer c.queue.ShutDown()
			if err := c.volumes.GetIndexer().Add(ownedVolume("pv", "a", "wwn:1")); err != nil {
				t.Fatal(err)
			}
			c.volumeChanged(tc.old, tc.object)
			var queued []string
			for c.queue.Len() > 0 {
				name, _ := c.queue.Get()
				queued = append(queued, name)
			}
			if slices.Contains(queued, "pv") != tc.want {
				t.Errorf("queued %q, want pv: %t", queued, tc.want)
			}
		})
	}
}

// TestDiskOnOtherNode: a volume of node a has the identity of a disk of node b. The volume neither
// gets a tombstone nor resolves one.
func TestDiskOnOtherNode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node, identity string
		state          stowage.EntryState
		gone           bool
		want           string
	}{
		"the other node uses it":             {node: "b", identity: "wwn:1", state: stowage.EntryBound, want: "b"},
		"the other node keeps off it":        {node: "b", identity: "wwn:1", state: stowage.EntrySkipped, want: "b"},
		"the other node misses it":           {node: "b", identity: "wwn:1", state: stowage.EntryMissing},
		"the other node is gone":             {node: "b", identity: "wwn:1", state: stowage.EntryBound, gone: true},
		"the other node has another disk":    {node: "b", identity: "wwn:2", state: stowage.EntryBound},
		"the volume's own node says so, too": {node: "a", identity: "wwn:1", state: stowage.EntryBound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, nodes := ofDisks()
			reports, volumes := c.ReportInformer, c.volumes
			since := metav1.NewTime(time.Now().Add(-time.Hour))
			volume := ownedVolume("pv", "a", "wwn:1")
			volume.CreationTimestamp = metav1.Now()
			err := errors.Join(volumes.GetIndexer().Add(volume), nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}),
				reports.GetIndexer().Add(&stowage.LocalDiskReport{
					ObjectMeta: metav1.ObjectMeta{Name: tc.node}, Spec: stowage.LocalDiskReportSpec{NodeName: tc.node, Page: 1},
					Status: stowage.LocalDiskReportStatus{Entries: []stowage.Entry{{Identity: tc.identity, State: tc.state}}},
				}))
			if !tc.gone {
				err = errors.Join(err, nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}))
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.otherNode("wwn:1", "a"); got != tc.want {
				t.Errorf("the disk is at %q too, want %q", got, tc.want)
			}
			tombstone := stowage.Tombstone{Identity: "wwn:1", VolumeUID: "old", Since: &since}
			if got, want := c.resolved(tombstone, "a"), tc.want == ""; got != want {
				t.Errorf("resolved is %t, want %t", got, want)
			}
		})
	}
}
