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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
)

// readClaim adds the claim that the volume is bound to, who makes it again, and the
// pods that use it.
func (c *Controller) readClaim(g *gathered) error {
	ref := g.volume.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return nil
	}
	key := ref.Namespace + "/" + ref.Name
	claim, err := c.claims.PersistentVolumeClaims(ref.Namespace).Get(ref.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("get claim %s: %w", key, err)
	}
	var owner *metav1.OwnerReference
	switch {
	case err != nil: // there is none
	case claim.UID != ref.UID:
		g.Successor = true
	default:
		g.claim, owner = claim, ephemeralOwner(claim)
	}
	pods, err := c.podsOf(key, owner)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		g.Pods = append(g.Pods, rules.Pod{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Placed: pod.Spec.NodeName != "",
			Deleting: pod.DeletionTimestamp != nil, Controlled: madeAnew(pod), Created: pod.CreationTimestamp.Time,
		})
	}
	if g.claim == nil {
		return nil
	}
	g.Claim = &rules.Claim{UID: string(claim.UID), Bound: claim.Spec.VolumeName == g.volume.Name, Deleting: claim.DeletionTimestamp != nil}
	recreatable, hindrance := rules.Recreatable(claim.Annotations)
	switch {
	case hindrance != "":
		g.Claim.Hindrance = hindrance
		return nil
	case owner != nil:
		g.Claim.Maker, g.Claim.Hindrance = makerPod(owner, pods, g.Node.Away())
		return nil
	}
	sets, err := c.sets.StatefulSets(claim.Namespace).List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list StatefulSets of namespace %s: %w", claim.Namespace, err)
	}
	g.Claim.Maker, g.Claim.Hindrance = makerSet(claim, sets)
	if g.Claim.Maker == nil && g.Claim.Hindrance == "" { // of no StatefulSet
		g.Claim.Maker, g.Claim.Hindrance = c.makerByClaim(claim, recreatable)
	}
	return nil
}

// makerByClaim is what a claim says of who makes it again, by its annotation or its owners.
func (c *Controller) makerByClaim(claim *corev1.PersistentVolumeClaim, recreatable bool) (maker *rules.Maker, hindrance string) {
	if recreatable || slices.ContainsFunc(claim.OwnerReferences, c.recreates) {
		return &rules.Maker{ByClaim: true}, ""
	}
	return nil, "it is neither of a StatefulSet's template nor generic ephemeral, has no owner of a kind in nodeLoss.recreatingOwners, and is not annotated " + wellknown.NodeLossRecreatableAnnotation + "=true"
}

// recreates reports whether an owner is of a kind that makes its claims again. The owner is not
// looked up: if it is gone, the garbage collector deletes the claim anyway.
func (c *Controller) recreates(owner metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	kind := schema.GroupKind{Group: version.Group, Kind: owner.Kind}
	return err == nil && slices.Contains(c.Settings.RecreatingOwners, kind.String())
}

// podsOf are the pods that use a claim and have not ended; and the one that it belongs to,
// though that has ended: the claim goes with it alone, and nobody may ever delete it. owner
// is nil for claims that belong to none.
func (c *Controller) podsOf(claim string, owner *metav1.OwnerReference) ([]*corev1.Pod, error) {
	objects, err := c.pods.GetIndexer().ByIndex(byClaim, claim)
	if err != nil {
		return nil, fmt.Errorf("find the pods of claim %s: %w", claim, err)
	}
	var pods []*corev1.Pod
	for _, object := range objects {
		pod, ok := object.(*corev1.Pod)
		if ok && (pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed || owner != nil && pod.UID == owner.UID) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// madeAnew says whether a pod has a controller other than kubelet.
func madeAnew(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind != "Node"
}

// ephemeralOwner is the pod that a generic ephemeral claim belongs to; nil for other
// claims.
func ephemeralOwner(claim *corev1.PersistentVolumeClaim) *metav1.OwnerReference {
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && owner.Kind == "Pod" {
		return owner
	}
	return nil
}

func makerPod(owner *metav1.OwnerReference, pods []*corev1.Pod, away bool) (maker *rules.Maker, hindrance string) {
	for _, pod := range pods {
		switch {
		case pod.UID != owner.UID:
		case !madeAnew(pod):
			return nil, "it belongs to pod " + pod.Name + ", which has no controller that makes it anew"
		default:
			return &rules.Maker{Name: pod.Name, UID: string(pod.UID), ByPod: true, Leaving: pod.DeletionTimestamp != nil && !away}, ""
		}
	}
	return &rules.Maker{Name: owner.Name, UID: string(owner.UID), ByPod: true, Leaving: true}, "" // garbage collection takes the claim
}

// makerSet is the StatefulSet of which a claim is, as long as the set has the pod that
// uses it. Both are empty for a claim of no set.
func makerSet(claim *corev1.PersistentVolumeClaim, sets []*appsv1.StatefulSet) (maker *rules.Maker, hindrance string) {
	for _, set := range sets {
		for i := range set.Spec.VolumeClaimTemplates {
			digits, found := strings.CutPrefix(claim.Name, set.Spec.VolumeClaimTemplates[i].Name+"-"+set.Name+"-")
			ordinal, err := strconv.ParseInt(digits, 10, 32)
			if !found || err != nil || strconv.FormatInt(ordinal, 10) != digits || !selected(set, claim) {
				continue
			}
			switch first, count := ordinals(set); {
			case set.DeletionTimestamp != nil:
				hindrance = "StatefulSet " + set.Name + " is being deleted"
			case ordinal < first || ordinal >= first+count:
				hindrance = fmt.Sprintf("StatefulSet %s has no pod %d now", set.Name, ordinal)
			default:
				return &rules.Maker{Name: set.Name, UID: string(set.UID)}, ""
			}
		}
	}
	return nil, hindrance
}

// selected says whether a claim has the labels that a set gives to those it makes.
func selected(set *appsv1.StatefulSet, claim *corev1.PersistentVolumeClaim) bool {
	if set.Spec.Selector == nil {
		return false
	}
	for key, value := range set.Spec.Selector.MatchLabels {
		if claim.Labels[key] != value {
			return false
		}
	}
	return true
}

// ordinals are those that a set's pods have.
func ordinals(set *appsv1.StatefulSet) (first, count int64) {
	count = 1
	if set.Spec.Replicas != nil {
		count = int64(*set.Spec.Replicas)
	}
	if set.Spec.Ordinals != nil {
		first = int64(set.Spec.Ordinals.Start)
	}
	return first, count
}
