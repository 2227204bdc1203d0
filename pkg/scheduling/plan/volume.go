// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// ClaimVolume is step 1: it sets a claimRef to the binding's claim on the volume. live is
// the volume as reserved or as read after a conflict, nil if it was not found:
//
//   - live refers to the claim, UID included: nothing to write;
//   - live is as free as when it was reserved, and everything that it was chosen by is
//     unchanged (labels, finalizers and status may differ): want is to be written on
//     live's resourceVersion;
//   - otherwise why is set.
//
// The claimRef and the bound-by-controller annotation are those of GetBindVolumeToClaim
// in component-helpers: the annotation means that the reference may be removed, so a
// volume that its owner has pre-bound to the claim does not get it.
func (b Binding) ClaimVolume(live *v1.PersistentVolume) (want *v1.PersistentVolume, write bool, why *Failure) {
	if why := b.sameVolume(live); why != nil {
		return nil, false, why
	}
	switch ref := live.Spec.ClaimRef; {
	case live.DeletionTimestamp != nil:
		return nil, false, b.fail(VolumeDeleting, "")
	case refersTo(ref, b.Claim):
		return live, false, nil
	case ref != nil && !preBound(ref, b.Claim):
		return nil, false, b.fail(VolumeClaimed, owner(ref, b.Claim))
	case refersTo(b.Volume.Spec.ClaimRef, b.Claim):
		return nil, false, b.fail(ClaimRefReset, "")
	case (ref == nil) != (b.Volume.Spec.ClaimRef == nil):
		return nil, false, b.fail(VolumeChanged, "")
	case ref == nil && live.Status.Phase != v1.VolumeAvailable:
		return nil, false, b.fail(VolumeUnavailable, string(live.Status.Phase))
	case !b.stillMatches(live):
		return nil, false, b.fail(VolumeChanged, "")
	}
	return b.withClaimRef(live), true, nil
}

// RestoreClaimRef sets the claimRef again on the volume of a claim whose binding is complete,
// after the claimRef or its UID was removed. Until then the volume is the claim's, whatever its
// phase.
func (b Binding) RestoreClaimRef(live *v1.PersistentVolume) (want *v1.PersistentVolume, write bool, why *Failure) {
	if why := b.sameVolume(live); why != nil {
		return nil, false, why
	}
	switch ref := live.Spec.ClaimRef; {
	case refersTo(ref, b.Claim):
		return live, false, nil
	case ref != nil && !preBound(ref, b.Claim):
		return nil, false, b.fail(VolumeClaimed, owner(ref, b.Claim))
	}
	return b.withClaimRef(live), true, nil
}

// withClaimRef returns a copy of the volume with a claimRef to the claim.
func (b Binding) withClaimRef(live *v1.PersistentVolume) *v1.PersistentVolume {
	want := live.DeepCopy()
	if _, set := live.Annotations[AnnBoundByController]; !set && live.Spec.ClaimRef == nil {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, AnnBoundByController, "yes")
	}
	want.Spec.ClaimRef = reference(b.Claim)
	return want
}

// UnclaimVolume undoes ClaimVolume. written is the API server's response to our own
// write; the result must be written on that resourceVersion or not at all. ok is false if
// the claimRef must stay because another writer may rely on it.
//
// A writer that completes a binding of another one (the PV controller; in Direct mode
// also the binder of another pod with the same claim) sets the volume's phase to Bound
// before it writes the claim, which makes our write conflict. A volume that was already
// Bound has no such protection.
func (b Binding) UnclaimVolume(written *v1.PersistentVolume) (want *v1.PersistentVolume, ok bool) {
	if written.Status.Phase == v1.VolumeBound {
		return nil, false
	}
	want = written.DeepCopy()
	want.Spec.ClaimRef = b.Volume.Spec.ClaimRef.DeepCopy()
	restore(&want.ObjectMeta, b.Volume.Annotations, AnnBoundByController)
	mark := string(b.Claim.UID)
	if was, marked := written.Annotations[wellknown.BindingUndoneAnnotation]; marked && was != mark {
		mark = undoneByMany
	}
	metav1.SetMetaDataAnnotation(&want.ObjectMeta, wellknown.BindingUndoneAnnotation, mark)
	return want, true
}

// undoneByMany is the value of BindingUndoneAnnotation for several claims: not the UID of
// any.
const undoneByMany = "several claims"

// RemoveUndoneMark removes BindingUndoneAnnotation from a volume whose binding is
// complete.
func (b Binding) RemoveUndoneMark(live *v1.PersistentVolume) (want *v1.PersistentVolume, write bool, why *Failure) {
	if why := b.sameVolume(live); why != nil {
		return nil, false, why
	}
	if _, marked := live.Annotations[wellknown.BindingUndoneAnnotation]; !marked || !refersTo(live.Spec.ClaimRef, b.Claim) {
		return live, false, nil
	}
	want = live.DeepCopy()
	delete(want.Annotations, wellknown.BindingUndoneAnnotation)
	return want, true, nil
}

// VolumeBound is step 3 for the volume: phase Bound.
func (b Binding) VolumeBound(live *v1.PersistentVolume) (want *v1.PersistentVolume, write bool, why *Failure) {
	if why := b.sameVolume(live); why != nil {
		return nil, false, why
	}
	if why := b.stillClaimed(live); why != nil {
		return nil, false, why
	}
	if live.Status.Phase == v1.VolumeBound {
		return live, false, nil
	}
	want = live.DeepCopy()
	want.Status.Phase = v1.VolumeBound
	want.Status.Message = ""
	return want, true, nil
}

// PreBound reports whether the volume was reserved for this claim by its owner, by name
// only.
func (b Binding) PreBound() bool {
	return preBound(b.Volume.Spec.ClaimRef, b.Claim)
}

// AwaitsPVController reports whether the PV controller may not know that live is the
// claim's, and would mark a claim Lost that is bound to it: it has not observed the
// volume, or has it with a claimRef that is not the claim's, UID included. It has
// observed it once it writes phase Bound.
func (b Binding) AwaitsPVController(live *v1.PersistentVolume) bool {
	switch {
	case b.PreBound() && b.Volume.Status.Phase == v1.VolumeBound:
		return true // the phase was Bound before the UID was set
	case live.Status.Phase == v1.VolumeBound:
		return false
	}
	_, byController := live.Annotations[AnnBoundByController]
	return !SeenByPVController(live) || b.PreBound() || b.UndoneByOther(live) || !byController // without the annotation it was pre-bound by its owner
}

// UndoneByOther reports whether a claimRef to another claim was removed from the volume.
// A PV controller whose cache has it for this claim, or for none, is harmless.
func (b Binding) UndoneByOther(live *v1.PersistentVolume) bool {
	by, marked := live.Annotations[wellknown.BindingUndoneAnnotation]
	return marked && by != string(b.Claim.UID)
}

func (b Binding) sameVolume(live *v1.PersistentVolume) *Failure {
	switch {
	case live == nil:
		return b.fail(VolumeGone, "")
	case live.UID != b.Volume.UID:
		return b.fail(VolumeReplaced, "")
	}
	return nil
}

func (b Binding) stillClaimed(live *v1.PersistentVolume) *Failure {
	switch ref := live.Spec.ClaimRef; {
	case refersTo(ref, b.Claim):
		return nil
	case ref == nil || preBound(ref, b.Claim):
		return b.fail(ClaimRefReset, "")
	default:
		return b.fail(VolumeClaimed, owner(ref, b.Claim))
	}
}

// stillMatches reports whether everything that made the volume fit the claim and the node
// is unchanged: its spec, its class (which may be an annotation), the known problem of
// its disk, and its labels if the claim selects by them.
func (b Binding) stillMatches(live *v1.PersistentVolume) bool {
	if live.ResourceVersion == b.Volume.ResourceVersion {
		return true
	}
	was, is := b.Volume.Spec, live.Spec
	was.ClaimRef, is.ClaimRef = nil, nil
	if !equality.Semantic.DeepEqual(was, is) {
		return false
	}
	wasClass, wasSet := b.Volume.Annotations[v1.BetaStorageClassAnnotation]
	isClass, isSet := live.Annotations[v1.BetaStorageClassAnnotation]
	if wasClass != isClass || wasSet != isSet || match.DiskProblem(b.Volume) != match.DiskProblem(live) {
		return false
	}
	if b.Claim.Spec.Selector == nil || b.PreBound() {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Claim.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(live.Labels))
}

func (b Binding) fail(code FailureCode, other string) *Failure {
	return &Failure{Code: code, Claim: claimName(b.Claim), Volume: b.Volume.Name, Other: other}
}

// reference returns what client-go's reference.GetReference returns for a claim.
func reference(claim *v1.PersistentVolumeClaim) *v1.ObjectReference {
	apiVersion, kind := "v1", "PersistentVolumeClaim"
	if gvk := claim.GroupVersionKind(); !gvk.Empty() {
		apiVersion, kind = gvk.GroupVersion().String(), gvk.Kind
	}
	return &v1.ObjectReference{
		APIVersion:      apiVersion,
		Kind:            kind,
		Namespace:       claim.Namespace,
		Name:            claim.Name,
		UID:             claim.UID,
		ResourceVersion: claim.ResourceVersion,
	}
}

// refersTo reports whether ref refers to the claim, UID included.
func refersTo(ref *v1.ObjectReference, claim *v1.PersistentVolumeClaim) bool {
	return match.RefersTo(ref, claim) && ref.UID == claim.UID
}

// preBound reports whether ref names the claim without a UID.
func preBound(ref *v1.ObjectReference, claim *v1.PersistentVolumeClaim) bool {
	return match.RefersTo(ref, claim) && ref.UID == "" && claim.UID != ""
}

// owner returns the name of the claim that ref refers to, with the UID if it has the
// name of claim.
func owner(ref *v1.ObjectReference, claim *v1.PersistentVolumeClaim) string {
	name := ref.Namespace + "/" + ref.Name
	if name == claimName(claim) {
		name += ", UID " + string(ref.UID)
	}
	return name
}

// restore resets the annotation to its former value, or removes it.
func restore(object *metav1.ObjectMeta, was map[string]string, key string) {
	if value, ok := was[key]; ok {
		metav1.SetMetaDataAnnotation(object, key, value)
	} else {
		delete(object.Annotations, key)
	}
}

// claimName returns namespace/name.
func claimName(c *v1.PersistentVolumeClaim) string {
	return c.Namespace + "/" + c.Name
}
