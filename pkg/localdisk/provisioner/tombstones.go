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

// tombstoneIndex finds the tombstones of all nodes: disks whose volume the controller has
// removed. Calls during a list share the next one, so that a node with a hundred new disks
// does not list a hundred times.
type tombstoneIndex struct {
	mu sync.Mutex
	// found are the tombstones of a list that started at listed.
	found  map[disk.Identity]stowage.Tombstone
	listed time.Time
}

// find returns the tombstone of a disk, as of the call or later; nil if there is none.
func (t *tombstoneIndex) find(ctx context.Context, reports Reports, identity disk.Identity) (*stowage.Tombstone, error) {
	called := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.listed.After(called) {
		started := time.Now()
		list, err := reports.List(ctx, metav1.ListOptions{LabelSelector: wellknown.TombstonesLabel + "=" + wellknown.TombstonesValue})
		if err != nil {
			return nil, fmt.Errorf("list the tombstones of all nodes: %w", err)
		}
		found := map[disk.Identity]stowage.Tombstone{}
		for i := range list.Items {
			for _, tombstone := range list.Items[i].Spec.Tombstones {
				// If one of two nodes that had the disk retains its data, that one has precedence.
				if other, exists := found[disk.Identity(tombstone.Identity)]; !exists || other.State != stowage.TombstoneRetained {
					found[disk.Identity(tombstone.Identity)] = tombstone
				}
			}
		}
		t.found, t.listed = found, started
	}
	if tombstone, exists := t.found[identity]; exists {
		return &tombstone, nil
	}
	return nil, nil
}

// overrides reports whether a tombstone has precedence over this node's record of a disk. If
// the record is dirty, that is a tombstone which retains the data, or one of the same volume,
// which the controller released while the node has the volume as published.
func overrides(tombstone *stowage.Tombstone, record *disk.Record) bool {
	if record == nil || !record.State.Dirty() {
		return true
	}
	if tombstone.VolumeUID == record.UID {
		return tombstone.State != stowage.TombstoneRetained && record.State == disk.Published && record.UID != ""
	}
	return tombstone.State == stowage.TombstoneRetained
}

// restoreFromTombstone records what the controller decided about a disk whose volume was lost:
// the disk is cleaned, as if a clean had started, or its data is retained.
func (p *Provisioner) restoreFromTombstone(ctx context.Context, g *gathered, tombstone *stowage.Tombstone) error {
	record := disk.Record{
		Identity: g.Fact.Identity, Key: g.Key, HostPath: g.path, Kind: g.Fact.Kind, State: disk.Cleaning, Policy: disk.Delete,
		Cluster: p.Cluster, Phase: disk.PhaseReleased, Volume: tombstone.Volume, UID: tombstone.VolumeUID,
		Generation: max(tombstone.Generation, firstGeneration(g.conf.class(g.Key.Class), g.since)),
	}
	if r := g.Record; r != nil && r.UID == tombstone.VolumeUID { // what only this node knows
		record.Mode, record.Root = r.Mode, r.Root
	}
	if tombstone.State == stowage.TombstoneRetained {
		record.State, record.Policy = disk.Retained, disk.Retain
	}
	if record.UID == "" { // written by hand: the value matches no volume
		record.UID = "unknown"
	}
	if err := p.Records.Put(record); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Restored the record of a disk from a tombstone", "path", g.path, "volume", tombstone.Volume, "state", record.State)
	return nil
}
