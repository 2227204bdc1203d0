// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// PVFinalizer keeps a PersistentVolume until its volume is deleted. It is the one of the CSI
// external-provisioner, whose protocol this is.
const PVFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// keep decides about a volume that has a PersistentVolume.
func (f *Facts) keep() Step {
	pv := f.PV
	if pv == nil {
		return f.certain(f.lost())
	}
	policy, finalized := pv.Spec.PersistentVolumeReclaimPolicy, slices.Contains(pv.Finalizers, PVFinalizer)
	deletes := policy == corev1.PersistentVolumeReclaimDelete
	switch {
	case !f.owned():
		return blocked(NotOwned, "PersistentVolume %s has another driver or handle than this volume", pv.Name)
	case policy != f.Volume.Status.ReclaimPolicy || pv.UID != f.Volume.Status.VolumeUID:
		return f.next(Event{}, func(s *stowage.PavVolumeStatus) { s.ReclaimPolicy, s.VolumeUID = policy, pv.UID })
	case deletes && !finalized && pv.DeletionTimestamp == nil:
		return AddPVFinalizer{}
	case !deletes && finalized:
		return RemovePVFinalizer{}
	case deletes && released(pv) && f.Claim == nil:
		return f.certain(f.delete())
	case f.expands():
		request := f.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
		return blocked(NoExpansion, "the claim requests %s, but volumes of a PavProvisioner cannot be expanded", request.String())
	case f.nodeGone():
		return blocked(NodeGone, "%s", f.nodeGoneMessage())
	default:
		return Wait{}
	}
}

// released reports whether no claim has the PersistentVolume, and none will.
func released(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeReleased ||
		pv.DeletionTimestamp != nil && pv.Spec.ClaimRef == nil && pv.Status.Phase != corev1.VolumeBound
}

// expands reports whether the claim requests more than its volume has.
func (f *Facts) expands() bool {
	if f.Claim == nil {
		return false
	}
	request := f.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return request.Cmp(*f.Volume.Status.Capacity) > 0
}

// lost decides about a volume whose PersistentVolume is gone, although it had a finalizer unless
// the volume is retained.
func (f *Facts) lost() Step {
	switch {
	case f.Claim != nil:
		return blocked(Missing, "the PersistentVolume of the volume was removed while claim %s/%s exists", f.Claim.Namespace, f.Claim.Name)
	case f.Volume.Status.ReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return f.delete()
	case f.Volume.DeletionTimestamp != nil:
		return f.remove()
	default:
		wait := blocked(Kept, "the volume is kept after its PersistentVolume was deleted: delete the PavVolume once nothing of it is needed")
		wait.Normal = true
		return wait
	}
}

// delete begins the deletion of a volume, unless it is staged.
func (f *Facts) delete() Step {
	if len(f.StagedOn) > 0 {
		return f.staged()
	}
	return f.enter(stowage.PavVolumeDeleting, Event{})
}

func (f *Facts) staged() Step {
	return blocked(Staged, "the volume is deleted once it is no longer staged on %s", strings.Join(f.StagedOn, ", "))
}

// destroy decides about a volume that is being deleted. No helper pod is created unless its
// PersistentVolume is released, may be deleted, and is staged nowhere.
func (f *Facts) destroy() Step {
	if f.helper().Idle() {
		switch {
		case f.PV == nil || !f.owned():
		case f.PV.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
			return blocked(Kept, "persistentVolumeReclaimPolicy became %s after the deletion of the volume had begun: it is not continued", f.PV.Spec.PersistentVolumeReclaimPolicy)
		case !released(f.PV):
			return blocked(NotReleased, "the phase of the PersistentVolume became %s after the deletion of the volume had begun: it is not continued", f.PV.Status.Phase)
		}
		if len(f.StagedOn) > 0 {
			return f.staged()
		}
	}
	return f.runDeletion(f.enter(stowage.PavVolumeDeleted, Event{}))
}

// revert decides about a volume whose attempt failed or was abandoned.
func (f *Facts) revert() Step {
	done := f.enter(stowage.PavVolumePending, Event{})
	if done.Status.Failures > 0 {
		done.Status.RetryTime = f.Limits.RetryTime(f.Now, done.Status.Failures)
		f.setConditions(&done.Status, f.lastEvent())
	}
	return f.runDeletion(done)
}

// runDeletion runs deletion pods until one succeeds, or returns done if none is needed.
func (f *Facts) runDeletion(done Record) Step {
	if f.helper().Idle() {
		wait := f.Limits.Delay(f.Now, f.Volume.Status.RetryTime)
		switch {
		case f.nodeGone() && f.Volume.DeletionTimestamp != nil: // an administrator gave up what the node has
			return f.certain(done)
		case f.nodeGone():
			return blocked(NodeGone, "%s: delete the PavVolume if the node does not return", f.nodeGoneMessage())
		case f.HandleUser != "": // the pod could delete what is in use
			return blocked(HandleInUse, "the volume is deleted once its handle is no longer in use by %s", f.HandleUser)
		case wait > 0:
			return Wait{Keep: true, For: wait}
		case f.Evaluated.Problem != "":
			return f.deletionFailed(f.Evaluated.Problem)
		case !f.Evaluated.HasPod:
			return done
		}
	}
	step, result := f.run()
	switch {
	case result == nil:
		return step
	case !result.Succeeded:
		return f.deletionFailed(f.describe(result.Message))
	default:
		return done
	}
}

// deletionFailed returns the Record of a deletion pod that failed. The next one runs after a
// backoff, for as long as it takes.
func (f *Facts) deletionFailed(message string) Record {
	return f.next(Event{Reason: DeletionFailed, Message: message}, func(s *stowage.PavVolumeStatus) {
		s.LastError = f.lastError(DeletionFailed, message)
		s.Step = nil
		s.DeletionFailures++
		s.RetryTime = f.Limits.RetryTime(f.Now, s.DeletionFailures)
	})
}

// unpublish decides about a volume of which only its objects are left.
func (f *Facts) unpublish() Step {
	if f.PV != nil && f.owned() {
		switch {
		case f.PV.DeletionTimestamp == nil:
			return DeletePV{f.PV.UID}
		case slices.Contains(f.PV.Finalizers, PVFinalizer):
			return RemovePVFinalizer{}
		}
	}
	return f.remove()
}

// remove removes the PavVolume.
func (f *Facts) remove() Step {
	if f.Volume.DeletionTimestamp != nil {
		return ReleaseVolume{}
	}
	return DeleteVolume{}
}
