// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/loop"
)

// readClaim adds the claim that the volume is bound to, what recreates it, and the pods that use
// it.
func (c *Controller) readClaim(f *volumeFacts) error {
	ref := f.volume.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return nil
	}
	key := ref.Namespace + "/" + ref.Name
	claim, err := get("claim "+key, c.claims.PersistentVolumeClaims(ref.Namespace).Get, ref.Name)
	if err != nil {
		return err
	}
	var owner *metav1.OwnerReference
	switch {
	case claim == nil:
	case claim.UID != ref.UID:
		f.Successor = true
	default:
		f.claim, owner = claim, ephemeralOwner(claim)
	}
	pods := c.podsOf(key, owner)
	for _, pod := range pods {
		f.Pods = append(f.Pods, rules.Pod{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Placed: pod.Spec.NodeName != "",
			Deleting: pod.DeletionTimestamp != nil, Controlled: hasController(pod), Created: pod.CreationTimestamp.Time,
		})
	}
	if f.claim == nil {
		return nil
	}
	f.Claim = &rules.Claim{UID: string(claim.UID), Bound: claim.Spec.VolumeName == f.volume.Name, Deleting: claim.DeletionTimestamp != nil}
	recreatable, obstacle := rules.Recreatable(claim.Annotations)
	switch {
	case obstacle != "":
		f.Claim.Obstacle = obstacle
		return nil
	case owner != nil:
		f.Claim.Recreator, f.Claim.Obstacle = recreatingPod(owner, pods, f.Node.Lost())
		return nil
	}
	sets, err := c.sets.StatefulSets(claim.Namespace).List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list StatefulSets of namespace %s: %w", claim.Namespace, err)
	}
	f.Claim.Recreator, f.Claim.Obstacle = recreatingSet(claim, sets)
	if f.Claim.Recreator == nil && f.Claim.Obstacle == "" { // of no StatefulSet
		f.Claim.Recreator, f.Claim.Obstacle = c.recreatedByOwner(claim, recreatable)
	}
	return nil
}

// recreatedByOwner returns the recreator of a claim by the claim's annotation or owners.
func (c *Controller) recreatedByOwner(claim *corev1.PersistentVolumeClaim, recreatable bool) (recreator *rules.Recreator, obstacle string) {
	if recreatable || slices.ContainsFunc(claim.OwnerReferences, c.recreates) {
		return &rules.Recreator{ByClaim: true}, ""
	}
	return nil, "it is neither of a StatefulSet's template nor generic ephemeral, has no owner of a kind in nodeLoss.recreatingOwners, and is not annotated " + wellknown.NodeLossRecreatableAnnotation + "=true"
}

// recreates reports whether an owner is of a kind that recreates its claims. The owner is not
// looked up: if it is gone, the garbage collector deletes the claim anyway.
func (c *Controller) recreates(owner metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	kind := schema.GroupKind{Group: version.Group, Kind: owner.Kind}
	return err == nil && slices.Contains(c.Settings.RecreatingOwners, kind.String())
}

// podsOf returns the pods that use a claim and have not terminated, and the pod that owns it even
// if that has terminated: the claim is only deleted with that pod. owner is nil for claims without
// one.
func (c *Controller) podsOf(claim string, owner *metav1.OwnerReference) (pods []*corev1.Pod) {
	for _, pod := range loop.List[corev1.Pod](c.pods, byClaim, claim) {
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed || owner != nil && pod.UID == owner.UID {
			pods = append(pods, pod)
		}
	}
	return pods
}

// hasController reports whether a pod has a controller other than kubelet.
func hasController(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind != "Node"
}

// ephemeralOwner returns the pod that owns a generic ephemeral claim; nil for other claims.
func ephemeralOwner(claim *corev1.PersistentVolumeClaim) *metav1.OwnerReference {
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && owner.Kind == "Pod" {
		return owner
	}
	return nil
}

func recreatingPod(owner *metav1.OwnerReference, pods []*corev1.Pod, lost bool) (recreator *rules.Recreator, obstacle string) {
	for _, pod := range pods {
		switch {
		case pod.UID != owner.UID:
		case !hasController(pod):
			return nil, "it belongs to pod " + pod.Name + ", which has no controller that recreates it"
		default:
			return &rules.Recreator{Name: pod.Name, UID: string(pod.UID), ByPod: true, Leaving: pod.DeletionTimestamp != nil && !lost}, ""
		}
	}
	return &rules.Recreator{Name: owner.Name, UID: string(owner.UID), ByPod: true, Leaving: true}, "" // the garbage collector deletes the claim
}

// recreatingSet returns the StatefulSet of a claim, if the set has the pod that uses it. Both
// results are empty for a claim of no set.
func recreatingSet(claim *corev1.PersistentVolumeClaim, sets []*appsv1.StatefulSet) (recreator *rules.Recreator, obstacle string) {
	for _, set := range sets {
		for i := range set.Spec.VolumeClaimTemplates {
			digits, found := strings.CutPrefix(claim.Name, set.Spec.VolumeClaimTemplates[i].Name+"-"+set.Name+"-")
			ordinal, err := strconv.ParseInt(digits, 10, 32)
			if !found || err != nil || strconv.FormatInt(ordinal, 10) != digits || !selected(set, claim) {
				continue
			}
			first := int64(ptr.Deref(set.Spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start)
			switch {
			case set.DeletionTimestamp != nil:
				obstacle = "StatefulSet " + set.Name + " is being deleted"
			case ordinal < first || ordinal >= first+int64(ptr.Deref(set.Spec.Replicas, 1)):
				obstacle = fmt.Sprintf("StatefulSet %s has no pod %d now", set.Name, ordinal)
			default:
				return &rules.Recreator{Name: set.Name, UID: string(set.UID)}, ""
			}
		}
	}
	return nil, obstacle
}

// selected reports whether a claim has the labels that a set gives to its claims.
func selected(set *appsv1.StatefulSet, claim *corev1.PersistentVolumeClaim) bool {
	return set.Spec.Selector != nil && labels.SelectorFromSet(set.Spec.Selector.MatchLabels).Matches(labels.Set(claim.Labels))
}
