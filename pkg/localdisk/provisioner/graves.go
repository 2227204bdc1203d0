// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// graves knows the disks of which the controller has removed the volume, on whatever
// node that was. Questions that come while a list is under way share the next one, so
// that a node with a hundred new disks does not ask a hundred times.
type tombstoneIndex struct {
	mu sync.Mutex
	// found are the tombstones by identity, of a list that was begun at asked.
	found map[disk.Identity]stowage.Tombstone
	asked time.Time
}

// find is the tombstone of a disk, as of now or later; nil if there is none.
func (t *tombstoneIndex) find(ctx context.Context, reports Reports, identity disk.Identity) (*stowage.Tombstone, error) {
	come := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked.After(come) {
		begun := time.Now()
		list, err := reports.List(ctx, metav1.ListOptions{LabelSelector: wellknown.TombstonesLabel + "=" + wellknown.TombstonesValue})
		if err != nil {
			return nil, fmt.Errorf("list the tombstones of all nodes: %w", err)
		}
		found := map[disk.Identity]stowage.Tombstone{}
		for i := range list.Items {
			for _, stone := range list.Items[i].Spec.Tombstones {
				// Of two nodes that had the disk, one kept its data.
				if before, there := found[disk.Identity(stone.Identity)]; !there || before.State != stowage.TombstoneRetained {
					found[disk.Identity(stone.Identity)] = stone
				}
			}
		}
		t.found, t.asked = found, begun
	}
	if stone, there := t.found[identity]; there {
		return &stone, nil
	}
	return nil, nil
}

// askNodes finds out what other nodes have to do with a disk that this one has no record
// of, or that it had before.
func (p *Provisioner) askNodes(ctx context.Context, g *gathered) (answers, error) {
	known := g.answers()
	known.asked = true
	if p.Reports != nil {
		stone, err := p.tombstoneIndex.find(ctx, p.Reports, g.Fact.Identity)
		if err != nil {
			return known, err
		}
		if stone != nil && overrides(stone, g.Record) {
			return answers{}, p.restoreFromTombstone(ctx, g, stone)
		}
	}
	if g.Record == nil {
		return known, nil
	}
	var err error
	known.claimant, err = p.foreignPVs.find(ctx, p, g.Fact.Identity)
	return known, err
}

// concerns says whether a tombstone says more of a disk than this node's record does: of
// a disk that the node knows to be dirty, that its data is to be kept, or that the
// controller released the very volume of which the node knows only that it is gone.
func overrides(stone *stowage.Tombstone, record *disk.Record) bool {
	if record == nil || !record.State.Dirty() {
		return true
	}
	if stone.VolumeUID == record.UID {
		return stone.State != stowage.TombstoneRetained && record.State == disk.Published && record.UID != ""
	}
	return stone.State == stowage.TombstoneRetained
}

// exhume gives a disk whose volume was lost a record that says what the controller decided:
// that it is to be cleaned, for which a clean counts as begun, or that it is to be kept.
func (p *Provisioner) restoreFromTombstone(ctx context.Context, g *gathered, stone *stowage.Tombstone) error {
	record := disk.Record{
		Identity: g.Fact.Identity, Key: g.Key, HostPath: g.path, Kind: g.Fact.Kind, State: disk.Cleaning, Policy: disk.Delete,
		Cluster: p.Cluster, Phase: disk.PhaseReleased, Volume: stone.Volume, UID: stone.VolumeUID,
		Generation: max(stone.Generation, firstGeneration(g.conf.classes[g.Key.Class], g.since)),
	}
	if r := g.Record; r != nil && r.UID == stone.VolumeUID { // what else the node knows of it
		record.Mode, record.Root = r.Mode, r.Root
	}
	if stone.State == stowage.TombstoneRetained {
		record.State, record.Policy = disk.Retained, disk.Retain
	}
	if record.UID == "" { // written by hand: no volume of this node's ever had the UID
		record.UID = "unknown"
	}
	if err := p.Records.Put(record); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("A disk has come whose volume was lost elsewhere", "path", g.path, "volume", stone.Volume, "state", record.State)
	return nil
}
