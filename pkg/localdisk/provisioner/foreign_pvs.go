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
	"k8s.io/client-go/tools/pager"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

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
func (f *foreignPVs) find(ctx context.Context, p *Provisioner, identity disk.Identity) (string, error) {
	called := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if volume, listed := f.found[identity]; listed && f.listed.After(called) {
		return volume, nil
	}
	found := map[disk.Identity]string{identity: ""}
	for attached := range p.paths.identities() {
		found[attached] = ""
	}
	delete(found, "")
	started := time.Now()
	volumes := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return p.Client.CoreV1().PersistentVolumes().List(ctx, options)
	})
	others := fmt.Sprintf("%s,%[1]s!=%s", wellknown.NodeLabel, localpv.NodeHash(p.Node))
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

// confirmNoForeignPV returns errStale if a volume of another node has the disk.
func (p *Provisioner) confirmNoForeignPV(ctx context.Context, identity disk.Identity) error {
	volume, err := p.foreignPVs.find(ctx, p, identity)
	if err == nil && volume != "" {
		err = errStale
	}
	return err
}
