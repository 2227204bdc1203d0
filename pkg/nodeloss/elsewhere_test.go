// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// TestDiskElsewhere: node a says that a volume of its own is of the disk of node b. Then
// no tombstone is written of it, and none is taken away.
func TestDiskElsewhere(t *testing.T) {
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
			nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			reports := cache.NewSharedIndexInformer(&cache.ListWatch{}, &stowage.LocalDiskReport{}, 0, cache.Indexers{byIdentity: identitiesOfReport})
			volumes := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.PersistentVolume{}, 0, cache.Indexers{byIdentity: identityOfVolume})
			c := &Controller{Config: Config{ReportInformer: reports}, nodes: corelisters.NewNodeLister(nodes), volumes: volumes}
			since := metav1.NewTime(time.Now().Add(-time.Hour))
			volume := oursOf("pv", "a", "wwn:1")
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
			if got := c.elsewhere("wwn:1", "a"); got != tc.want {
				t.Errorf("the disk is at %q too, want %q", got, tc.want)
			}
			stone := stowage.Tombstone{Identity: "wwn:1", VolumeUID: "old", Since: &since}
			if got, want := c.settled(stone), tc.want == ""; got != want {
				t.Errorf("settled is %t, want %t", got, want)
			}
		})
	}
}
