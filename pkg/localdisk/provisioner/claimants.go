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

// claimants knows which of the disks that are here a volume of another node has. All
// volumes of all nodes are listed for that, so it is asked only about disks that this
// node had before, has no volume of, and is about to clean or to publish. Questions that
// come while a list is under way share the next one.
type foreignPVs struct {
	mu sync.Mutex
	// found names a volume, or none, for each disk that was here when a list was begun at
	// asked.
	found map[disk.Identity]string
	asked time.Time
}

// find names a volume of another node that has the disk, as of now or later; empty if
// there is none.
func (f *foreignPVs) find(ctx context.Context, a *Provisioner, identity disk.Identity) (string, error) {
	come := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if claimant, looked := f.found[identity]; looked && f.asked.After(come) {
		return claimant, nil
	}
	found := map[disk.Identity]string{identity: ""}
	for here := range a.identities() {
		found[here] = ""
	}
	delete(found, "")
	begun := time.Now()
	volumes := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return a.Client.CoreV1().PersistentVolumes().List(ctx, options)
	})
	others := fmt.Sprintf("%s,%[1]s!=%s", wellknown.NodeLabel, localpv.NodeHash(a.Node))
	err := volumes.EachListItemWithAlloc(ctx, metav1.ListOptions{LabelSelector: others}, func(object runtime.Object) error {
		volume, ok := object.(*corev1.PersistentVolume)
		if !ok {
			return fmt.Errorf("a list of volumes has a %T", object)
		}
		of := disk.Identity(volume.Annotations[wellknown.DiskIdentityAnnotation])
		if _, here := found[of]; here {
			found[of] = fmt.Sprintf("volume %s of node %s", volume.Name, volume.Annotations[wellknown.NodeNameAnnotation])
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("list the volumes of all nodes: %w", err)
	}
	f.found, f.asked = found, begun
	return found[identity], nil
}

// unclaimed makes sure that no volume of another node has a disk: else the error is
// errAgain.
func (p *Provisioner) confirmNoForeignPV(ctx context.Context, identity disk.Identity) error {
	claimant, err := p.foreignPVs.find(ctx, p, identity)
	if err == nil && claimant != "" {
		err = errStale
	}
	return err
}
