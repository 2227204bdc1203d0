// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
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

// foreignPVs finds volumes of other nodes that have a disk of this node. It lists the volumes
// of all nodes, so it is used only for disks that this node had before, has no volume of, and
// is about to clean or to publish. Calls during a list share the next one.
type foreignPVs struct {
	mu sync.Mutex
	// found has a volume, or an empty string, for each disk that was attached when the list
	// started at listed.
	found  map[disk.Identity]string
	listed time.Time
}

// find names a volume of another node that has the disk, as of the call or later; empty if
// there is none.
func (f *foreignPVs) find(ctx context.Context, client kubernetes.Interface, node string, identity disk.Identity, present map[disk.Identity]bool) (string, error) {
	called := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if volume, listed := f.found[identity]; listed && f.listed.After(called) {
		return volume, nil
	}
	found := map[disk.Identity]string{identity: ""}
	for attached := range present {
		found[attached] = ""
	}
	delete(found, "")
	started := time.Now()
	volumes := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().PersistentVolumes().List(ctx, options)
	})
	others := fmt.Sprintf("%s,%[1]s!=%s", wellknown.NodeLabel, localpv.NodeHash(node))
	err := volumes.EachListItemWithAlloc(ctx, metav1.ListOptions{LabelSelector: others}, func(object runtime.Object) error {
		volume, ok := object.(*corev1.PersistentVolume)
		if !ok {
			return fmt.Errorf("a list of volumes has a %T", object)
		}
		id := disk.Identity(volume.Annotations[wellknown.DiskIdentityAnnotation])
		if _, attached := found[id]; attached {
			found[id] = fmt.Sprintf("volume %s of node %s", volume.Name, volume.Annotations[wellknown.NodeNameAnnotation])
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("list the volumes of all nodes: %w", err)
	}
	f.found, f.listed = found, started
	return found[identity], nil
}
