// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder_test

import (
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"stowage.dev/stowage/pkg/scheduling/plan"
)

// controller is a model of the PV controller's binding. Like the real one it decides on its
// own caches, which receive volumes and claims independently of each other and arbitrarily
// late, and makes up to four writes per binding, any of which may conflict. One call of step
// is one sync or one write, so that a test can act in between.
type controller struct {
	c   *cluster
	rng *rand.Rand
	// volumes and claims are its caches.
	volumes map[string]*v1.PersistentVolume
	claims  map[string]*v1.PersistentVolumeClaim
	// volumeQueue and claimQueue have the names to sync.
	volumeQueue, claimQueue map[string]bool
	// todo are the writes of the sync in progress.
	todo []func() error
}

// newController returns a controller that has listed all objects and synced none.
func newController(c *cluster, rng *rand.Rand) *controller {
	k := &controller{
		c: c, rng: rng,
		volumes: map[string]*v1.PersistentVolume{}, claims: map[string]*v1.PersistentVolumeClaim{},
		volumeQueue: map[string]bool{}, claimQueue: map[string]bool{},
	}
	for name := range c.volumes {
		k.volumes[name], k.volumeQueue[name] = c.Volume(name), true
	}
	for name := range c.claims {
		k.claims[name], k.claimQueue[name] = c.Claim("default", c.claims[name].Name), true
	}
	return k
}

// step syncs one object or makes one write. It returns false if there is nothing to do.
func (k *controller) step() bool {
	if len(k.todo) > 0 {
		write := k.todo[0]
		k.todo = k.todo[1:]
		if write() != nil {
			k.todo = nil // the sync fails, the object is queued again
		}
		return true
	}
	k.watch()
	var syncs []func()
	for _, name := range sorted(k.volumeQueue) {
		syncs = append(syncs, func() { delete(k.volumeQueue, name); k.syncVolume(name) })
	}
	for _, name := range sorted(k.claimQueue) {
		syncs = append(syncs, func() { delete(k.claimQueue, name); k.syncClaim(name) })
	}
	if len(syncs) == 0 {
		return false
	}
	syncs[k.rng.IntN(len(syncs))]()
	return true
}

// watch enqueues changed objects; the caches are updated when they are synced.
func (k *controller) watch() {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	for name, volume := range k.c.volumes {
		if known := k.volumes[name]; known == nil || known.ResourceVersion != volume.ResourceVersion {
			k.volumeQueue[name] = true
		}
	}
	for name, claim := range k.c.claims {
		if known := k.claims[name]; known == nil || known.ResourceVersion != claim.ResourceVersion {
			k.claimQueue[name] = true
		}
	}
}

func (k *controller) syncVolume(name string) {
	volume := k.c.Volume(name)
	k.volumes[name] = volume
	ref := volume.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		k.phase(name, v1.VolumeAvailable)
		return
	}
	claim := k.claims[ref.Namespace+"/"+ref.Name]
	switch {
	case claim == nil || claim.UID != ref.UID:
		k.phase(name, v1.VolumeReleased)
	case claim.Spec.VolumeName == "":
		k.claimQueue[ref.Namespace+"/"+ref.Name] = true
	case claim.Spec.VolumeName == name:
		k.phase(name, v1.VolumeBound)
	default:
		k.todo = append(k.todo, func() error {
			volume := k.volumes[name].DeepCopy()
			if _, ours := volume.Annotations[plan.AnnBoundByController]; ours {
				volume.Spec.ClaimRef = nil
				delete(volume.Annotations, plan.AnnBoundByController)
			} else {
				volume.Spec.ClaimRef.UID = ""
			}
			return k.putVolume(volume, false)
		})
		k.phase(name, v1.VolumeAvailable)
	}
}

func (k *controller) syncClaim(name string) {
	claim := k.c.Claim("default", k.claims[name].Name)
	k.claims[name] = claim
	volume := k.volumes[claim.Spec.VolumeName]
	if _, completed := claim.Annotations[plan.AnnBindCompleted]; completed {
		switch {
		case volume == nil, volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID != claim.UID:
			k.todo = append(k.todo, func() error {
				claim := k.claims[name].DeepCopy()
				claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimLost}
				return k.putClaim(claim, true)
			})
		default:
			k.bind(volume.Name, name)
		}
		return
	}
	if claim.Spec.VolumeName != "" {
		return
	}
	for _, candidate := range sorted(k.volumes) {
		if v := k.volumes[candidate]; storagehelpers.IsVolumeBoundToClaim(v, claim) && v.DeletionTimestamp == nil {
			k.bind(candidate, name)
			return
		}
	}
}

// bind returns the four writes of a binding, each only if needed.
func (k *controller) bind(volumeName, claimName string) {
	k.todo = append(k.todo, func() error {
		want, dirty, err := storagehelpers.GetBindVolumeToClaim(k.volumes[volumeName], k.claims[claimName])
		if err != nil || !dirty {
			return err
		}
		return k.putVolume(want, false)
	})
	k.phase(volumeName, v1.VolumeBound)
	k.todo = append(k.todo, func() error {
		want := k.claims[claimName].DeepCopy()
		if _, completed := want.Annotations[plan.AnnBindCompleted]; completed && want.Spec.VolumeName == volumeName {
			return nil
		}
		want.Spec.VolumeName = volumeName
		if want.Annotations == nil {
			want.Annotations = map[string]string{}
		}
		want.Annotations[plan.AnnBindCompleted], want.Annotations[plan.AnnBoundByController] = "yes", "yes"
		return k.putClaim(want, false)
	}, func() error {
		want := k.claims[claimName].DeepCopy()
		if want.Status.Phase == v1.ClaimBound {
			return nil
		}
		volume := k.volumes[volumeName]
		want.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: volume.Spec.AccessModes, Capacity: volume.Spec.Capacity}
		return k.putClaim(want, true)
	})
}

func (k *controller) phase(name string, phase v1.PersistentVolumePhase) {
	k.todo = append(k.todo, func() error {
		volume := k.volumes[name].DeepCopy()
		if volume.Status.Phase == phase {
			return nil
		}
		volume.Status.Phase = phase
		return k.putVolume(volume, true)
	})
}

func (k *controller) putVolume(volume *v1.PersistentVolume, status bool) error {
	stored, err := k.c.putVolume(volume, status)
	if err != nil {
		k.volumeQueue[volume.Name] = true
		return err
	}
	k.volumes[volume.Name] = stored
	k.volumeQueue[volume.Name] = true
	return nil
}

func (k *controller) putClaim(claim *v1.PersistentVolumeClaim, status bool) error {
	stored, err := k.c.putClaim(claim, status)
	if err != nil {
		k.claimQueue[key(claim)] = true
		return err
	}
	k.claims[key(claim)] = stored
	k.claimQueue[key(claim)] = true
	return nil
}

func sorted[T any](set map[string]T) []string {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
