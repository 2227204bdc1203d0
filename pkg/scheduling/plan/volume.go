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

// ClaimVolume is step 1: the volume with a claimRef to the binding's claim. It
// decides on live, which is the volume as reserved or as read after a conflict:
//
//   - live refers to the claim, UID included: nothing to write;
//   - live is as free as when it was reserved, and what was asked of it when it
//     was chosen has not changed (labels, finalizers and status may have): want
//     is to be written on live's resourceVersion;
//   - else why not. live is nil for a volume that was not found.
//
// The claimRef and the bound-by-controller annotation are those of
// GetBindVolumeToClaim in component-helpers: the annotation says that the
// reference may be taken back, so a volume that its owner has pre-bound to the
// claim does not get it.
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
		return nil, false, b.fail(VolumeClaimed, claimant(ref, b.Claim))
	case refersTo(b.Volume.Spec.ClaimRef, b.Claim):
		return nil, false, b.fail(ClaimRefReset, "")
	case (ref == nil) != (b.Volume.Spec.ClaimRef == nil):
		return nil, false, b.fail(VolumeChanged, "")
	case ref == nil && live.Status.Phase != v1.VolumeAvailable:
		return nil, false, b.fail(VolumeUnavailable, string(live.Status.Phase))
	case !b.stillMatches(live):
		return nil, false, b.fail(VolumeChanged, "")
	}
	want = live.DeepCopy()
	if _, set := live.Annotations[AnnBoundByController]; !set && live.Spec.ClaimRef == nil {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, AnnBoundByController, "yes")
	}
	want.Spec.ClaimRef = reference(b.Claim)
	return want, true, nil
}

// UnclaimVolume undoes ClaimVolume. written is what the API server answered to
// our own write; the result must be written on that resourceVersion or not at
// all. ok is false when the claimRef must stay because somebody may rely on it:
//
// Whoever completes a binding that another one has begun (the PV controller; in
// Direct mode also the binder of another pod with the same claim) first sets
// the volume's phase to Bound, and thereby takes written's resourceVersion away
// from us, before it writes the claim. A volume that was Bound already offers
// no such protection.
func (b Binding) UnclaimVolume(written *v1.PersistentVolume) (want *v1.PersistentVolume, ok bool) {
	if written.Status.Phase == v1.VolumeBound {
		return nil, false
	}
	want = written.DeepCopy()
	want.Spec.ClaimRef = b.Volume.Spec.ClaimRef.DeepCopy()
	restore(&want.ObjectMeta, b.Volume.Annotations, AnnBoundByController)
	mark := string(b.Claim.UID)
	if was, marked := written.Annotations[wellknown.BindingUndoneAnnotation]; marked && was != mark {
		mark = givenBackTwice
	}
	metav1.SetMetaDataAnnotation(&want.ObjectMeta, wellknown.BindingUndoneAnnotation, mark)
	return want, true
}

// givenBackTwice is the value of AnnGivenBack for several claims: no claim's UID.
const givenBackTwice = "several claims"

// RemoveMark is for a volume whose binding is complete: without AnnGivenBack.
func (b Binding) RemoveMark(live *v1.PersistentVolume) (want *v1.PersistentVolume, write bool, why *Failure) {
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

// PreBound says that the volume was reserved for this claim by its owner, by
// name only.
func (b Binding) PreBound() bool {
	return preBound(b.Volume.Spec.ClaimRef, b.Claim)
}

// Open says that the PV controller may not know live as the claim's yet, and would mark
// a claim Lost that is bound to it: it has not seen the volume, or holds it with a
// claimRef that is not the claim's, UID included. Its writing phase Bound ends that.
func (b Binding) Open(live *v1.PersistentVolume) bool {
	switch {
	case b.PreBound() && b.Volume.Status.Phase == v1.VolumeBound:
		return true // a phase that was Bound before there was a UID tells nothing
	case live.Status.Phase == v1.VolumeBound:
		return false
	}
	_, byController := live.Annotations[AnnBoundByController]
	return !Noticed(live) || b.PreBound() || b.GivenBack(live) || !byController // pre-bound by its owner, whoever wrote the UID
}

// GivenBack says that a claimRef to another claim was taken back from the volume. The
// PV controller that holds it for this claim, or for none, does no harm.
func (b Binding) GivenBack(live *v1.PersistentVolume) bool {
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
		return b.fail(VolumeClaimed, claimant(ref, b.Claim))
	}
}

// stillMatches says that whatever made the volume fit the claim and the node
// is as it was: its spec, its class (which may be an annotation), what is known
// of its disk, and its labels where the claim selects by them.
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

// reference is what client-go's reference.GetReference makes of a claim.
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

// refersTo says that ref is a complete reference to this very claim.
func refersTo(ref *v1.ObjectReference, claim *v1.PersistentVolumeClaim) bool {
	return names(ref, claim) && ref.UID == claim.UID
}

// preBound says that ref names the claim but leaves its UID open.
func preBound(ref *v1.ObjectReference, claim *v1.PersistentVolumeClaim) bool {
	return names(ref, claim) && ref.UID == "" && claim.UID != ""
}

func names(ref *v1.ObjectReference, claim *v1.PersistentVolumeClaim) bool {
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name
}

// claimant is whom ref refers to, told apart from a claim of the same name.
func claimant(ref *v1.ObjectReference, claim *v1.PersistentVolumeClaim) string {
	if names(ref, claim) {
		return ref.Namespace + "/" + ref.Name + ", UID " + string(ref.UID)
	}
	return ref.Namespace + "/" + ref.Name
}

// restore gives the annotation the value it had, or takes it away.
func restore(object *metav1.ObjectMeta, was map[string]string, key string) {
	if value, ok := was[key]; ok {
		metav1.SetMetaDataAnnotation(object, key, value)
	} else {
		delete(object.Annotations, key)
	}
}
