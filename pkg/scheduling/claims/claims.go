// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claims classifies the claims of a pod: bound, to be bound by the scheduler, or
// the reason why the pod cannot be scheduled yet. It is pure: the caller provides the
// look-ups.
package claims

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// Lookup finds the objects that a pod's volumes refer to, nil if they do not exist.
type Lookup interface {
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	Class(name string) *storagev1.StorageClass
}

// Set is the claims of a pod, each once however many volumes of the pod use it, in the
// order of the pod's volumes.
type Set struct {
	// Bound claims have volumeName and the bind-completed annotation.
	Bound []*v1.PersistentVolumeClaim
	// Delayed claims are bound by the scheduler: the binding mode of their class is
	// WaitForFirstConsumer and they name no volume.
	Delayed []Delayed
}

// Delayed is a claim that the scheduler binds, with its class.
type Delayed struct {
	Claim *v1.PersistentVolumeClaim
	Class *storagev1.StorageClass
}

// Use is a reference of a pod to a claim.
type Use struct {
	Name string
	// Ephemeral: a generic ephemeral volume, whose claim the pod must own.
	Ephemeral bool
}

// Used yields each reference of the pod to a claim, in order, repeats included.
func Used(pod *v1.Pod) func(yield func(Use) bool) {
	return func(yield func(Use) bool) {
		for i := range pod.Spec.Volumes {
			use, ok := useOf(pod, &pod.Spec.Volumes[i])
			if ok && !yield(use) {
				return
			}
		}
	}
}

// Keys returns the claims that the pod uses, as namespace/name, repeats included.
func Keys(pod *v1.Pod) (keys []string) {
	for use := range Used(pod) {
		keys = append(keys, pod.Namespace+"/"+use.Name)
	}
	return keys
}

// Any reports whether the pod uses any claim.
func Any(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if volume := &pod.Spec.Volumes[i]; volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			return true
		}
	}
	return false
}

// AnyEphemeral reports whether the pod has any generic ephemeral volume.
func AnyEphemeral(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

// Uses reports whether the pod uses the claim of that name in its namespace.
func Uses(pod *v1.Pod, name string) bool {
	for use := range Used(pod) {
		if use.Name == name {
			return true
		}
	}
	return false
}

func useOf(pod *v1.Pod, volume *v1.Volume) (Use, bool) {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return Use{Name: volume.PersistentVolumeClaim.ClaimName}, true
	case volume.Ephemeral != nil:
		// The name that the ephemeral volume controller sets (KEP-1698).
		return Use{Name: pod.Name + "-" + volume.Name, Ephemeral: true}, true
	}
	return Use{}, false
}

// Refusal is why a pod cannot be scheduled on any node for now. Its text is for the pod's
// user; where the stock plugin rejects for the same reason, it starts with the stock
// plugin's text.
type Refusal struct{ message string }

// Error returns the text.
func (r *Refusal) Error() string { return r.message }

func refuse(format string, args ...any) *Refusal { return &Refusal{fmt.Sprintf(format, args...)} }

// Classify classifies the pod's claims. A non-nil refusal means that no node fits until
// one of the claims or classes changes.
func Classify(pod *v1.Pod, look Lookup) (Set, *Refusal) {
	var set Set
	seen := make(map[string]bool, len(pod.Spec.Volumes))
	var waiting *Refusal
	for use := range Used(pod) {
		claim := look.Claim(pod.Namespace, use.Name)
		if refusal := usable(pod, use, claim); refusal != nil {
			return Set{}, refusal
		}
		if seen[use.Name] {
			continue
		}
		seen[use.Name] = true
		if plan.IsBound(claim) {
			set.Bound = append(set.Bound, claim)
			continue
		}
		class, refusal := classOf(claim, look)
		if refusal != nil {
			waiting = refusal
			continue
		}
		set.Delayed = append(set.Delayed, Delayed{Claim: claim, Class: class})
	}
	if waiting != nil {
		return Set{}, waiting
	}
	return set, nil
}

// usable returns why a pod cannot use a claim at all, nil if it can.
func usable(pod *v1.Pod, use Use, claim *v1.PersistentVolumeClaim) *Refusal {
	switch {
	case claim == nil && use.Ephemeral:
		return refuse("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", use.Name)
	case claim == nil:
		return refuse("persistentvolumeclaim %q not found", use.Name)
	case claim.Status.Phase == v1.ClaimLost:
		return refuse("persistentvolumeclaim %q bound to non-existent persistentvolume %q", use.Name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return refuse("persistentvolumeclaim %q is being deleted", use.Name)
	case use.Ephemeral && !metav1.IsControlledBy(claim, pod):
		return refuse("persistentvolumeclaim %q was not created for pod %q (pod is not owner)", use.Name, pod.Name)
	}
	return nil
}

// classOf returns the class of an unbound claim that the scheduler binds. Other unbound
// claims are bound first by the PV controller (immediate class, volume named by the user)
// or need an administrator (no such class).
func classOf(claim *v1.PersistentVolumeClaim, look Lookup) (*storagev1.StorageClass, *Refusal) {
	const immediate = "pod has unbound immediate PersistentVolumeClaims"
	name := match.ClaimClass(claim)
	if claim.Spec.VolumeName != "" || name == "" {
		return nil, refuse(immediate)
	}
	class := look.Class(name)
	if class == nil {
		return nil, refuse(immediate+": storageclass %q of persistentvolumeclaim %q not found", name, claim.Name)
	}
	if !LateBinding(class) {
		return nil, refuse(immediate)
	}
	return class, nil
}

// HasClass reports whether the claim names a class, perhaps the empty one.
func HasClass(claim *v1.PersistentVolumeClaim) bool {
	_, beta := claim.Annotations[v1.BetaStorageClassAnnotation]
	return beta || claim.Spec.StorageClassName != nil
}

// LateBinding reports whether the scheduler binds the claims of the class; false for nil.
func LateBinding(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// IsDefault reports whether the class is marked as a default of the cluster.
func IsDefault(class *storagev1.StorageClass) bool {
	return class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" || class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

// DefaultClass returns the class of claims that name none: of several the newest, then the first
// by name. It is nil if there is none.
func DefaultClass(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	marked := slices.DeleteFunc(slices.Clone(classes), func(class *storagev1.StorageClass) bool { return !IsDefault(class) })
	if len(marked) == 0 {
		return nil
	}
	return slices.MinFunc(marked, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// SelectedNode returns the node that the claim's volume is provisioned for, empty for
// none.
func SelectedNode(claim *v1.PersistentVolumeClaim) string {
	return claim.Annotations[plan.AnnSelectedNode]
}

// ByAge orders claims: the oldest first, of those of one second by their UIDs.
func ByAge(a, b *v1.PersistentVolumeClaim) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}

// InTurn returns the items so that namespaces alternate, in the order of their first items. Items of
// a namespace keep their order.
func InTurn[T any](items []T, namespace func(T) string) []T {
	var left [][]T
	index := map[string]int{}
	for _, item := range items {
		name := namespace(item)
		i, known := index[name]
		if !known {
			i = len(left)
			index[name], left = i, append(left, nil)
		}
		left[i] = append(left[i], item)
	}
	result := make([]T, 0, len(items))
	for len(left) > 0 {
		for i := range left {
			result, left[i] = append(result, left[i][0]), left[i][1:]
		}
		left = slices.DeleteFunc(left, func(of []T) bool { return len(of) == 0 })
	}
	return result
}
