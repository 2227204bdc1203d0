// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"math"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/pav/render"
)

// noCapacity returns why the node of a volume has no capacity for it, if the volume is to be created
// next. Schedulers may place more volumes on a node than fit: several have no common reservations, and
// kube-scheduler's VolumeBinding subtracts nothing from a CSIStorageCapacity.
func (c *Controller) noCapacity(s *situation) (problem string, err error) {
	volume := s.Volume
	if volume == nil || s.Node == nil {
		return "", nil
	}
	if volume.Status.Phase != stowage.PavVolumeCreating {
		if !rules.Placed(volume) {
			c.placements.release(volume)
		}
		return "", nil
	}
	spec, _ := c.specOf(volume.Spec.Revision)
	if volume.Status.Step != nil || spec == nil || spec.StorageCapacity == nil {
		return "", nil
	}
	node, err := steps.Unstructured(s.Node, "Node", "v1")
	if err != nil {
		return "", err
	}
	total, err := render.StorageCapacity(spec, node)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // for users
	}
	needed, err := rules.Usage(volume, s.Claim)
	if err != nil {
		return "", err
	}
	used, err := c.placements.take(volume, total, needed, loop.List[stowage.PavVolume](c.Volumes, steps.ByNode, volume.Spec.NodeName))
	if err != nil || used <= total-needed {
		return "", err
	}
	return fmt.Sprintf("spec.storageCapacity of node %s is %s, of which other volumes use %s: %s do not fit", volume.Spec.NodeName,
		resource.NewQuantity(total, resource.BinarySI), resource.NewQuantity(used, resource.BinarySI), resource.NewQuantity(needed, resource.BinarySI)), nil
}

// placements are the bytes of the volumes that may be created on their nodes, by provisioner and
// node: informers do not show two volumes to each other that are placed at the same time. Of the
// volumes before this process became the leader, they show all. It is safe for concurrent use.
type placements struct {
	mu sync.Mutex
	of map[string]map[types.UID]int64
}

func placementKey(volume *stowage.PavVolume) string {
	return volume.Spec.Provisioner + "/" + volume.Spec.NodeName
}

// take lets a volume use its node if it fits, and returns what others use there. others are the
// volumes of the node in the informer.
func (r *placements) take(volume *stowage.PavVolume, total, needed int64, others []*stowage.PavVolume) (used int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.of[placementKey(volume)]
	for uid, bytes := range taken {
		if uid != volume.UID {
			used += min(bytes, math.MaxInt64-used)
		}
	}
	for _, other := range others {
		if other.UID == volume.UID || other.Spec.Provisioner != volume.Spec.Provisioner || !rules.Placed(other) {
			continue
		}
		bytes, err := rules.Usage(other, nil)
		if err != nil {
			return 0, err
		}
		used += min(max(0, bytes-taken[other.UID]), math.MaxInt64-used) // volumes may be larger than requested
	}
	if used > total-needed {
		return used, nil
	}
	if taken == nil {
		if r.of == nil {
			r.of = map[string]map[types.UID]int64{}
		}
		taken = map[types.UID]int64{}
		r.of[placementKey(volume)] = taken
	}
	taken[volume.UID] = needed
	return used, nil
}

// release has a volume no longer use its node.
func (r *placements) release(volume *stowage.PavVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := placementKey(volume)
	delete(r.of[key], volume.UID)
	if len(r.of[key]) == 0 {
		delete(r.of, key)
	}
}
