// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claims sorts the volumes of a pod into claims that are bound, claims
// that wait for the scheduler, and reasons why the pod cannot be scheduled yet.
// It is pure: the caller hands in how to look things up.
package claims

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// Lookup finds the objects that a pod's volumes refer to, nil for what does
// not exist.
type Lookup interface {
	Claim(namespace, name string) *v1.PersistentVolumeClaim
	Class(name string) *storagev1.StorageClass
}

// Set is what a pod asks for, each claim once however many volumes of the pod
// use it, in the order of the pod's volumes.
type Set struct {
	// Bound claims have volumeName and the bind-completed annotation.
	Bound []*v1.PersistentVolumeClaim
	// Delayed claims wait for the scheduler: their class binds at
	// WaitForFirstConsumer and no volume is named.
	Delayed []Delayed
}

// Delayed is a claim that the scheduler binds, with its class.
type Delayed struct {
	Claim *v1.PersistentVolumeClaim
	Class *storagev1.StorageClass
}

// Use is one mention of a claim by a pod.
type Use struct {
	Name string
	// Ephemeral: a generic ephemeral volume, whose claim the pod must own.
	Ephemeral bool
}

// Used calls yield with each volume of the pod that stands for a claim, in
// order, repeats included.
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

// Any tells whether the pod uses any claim.
func Any(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if volume := &pod.Spec.Volumes[i]; volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			return true
		}
	}
	return false
}

// AnyEphemeral tells whether the pod has any generic ephemeral volume.
func AnyEphemeral(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

// Uses tells whether the pod uses the claim of that name in its namespace.
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
		// The name that the ephemeral volume controller gives (KEP-1698).
		return Use{Name: pod.Name + "-" + volume.Name, Ephemeral: true}, true
	}
	return Use{}, false
}

// Refusal says why a pod cannot be scheduled on any node for now. Its text is
// for the pod's user; where the stock plugin refuses for the same reason, it
// starts with the stock plugin's words.
type Refusal struct{ message string }

// Error gives the text.
func (r *Refusal) Error() string { return r.message }

func refuse(format string, args ...any) *Refusal { return &Refusal{fmt.Sprintf(format, args...)} }

// Sort sorts the pod's claims. A non-nil refusal means that no node will do
// until one of the claims or classes changes.
func Sort(pod *v1.Pod, look Lookup) (Set, *Refusal) {
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
		if IsBound(claim) {
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

// usable tells why a pod cannot use a claim at all, nil if it can.
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

// classOf returns the class of an unbound claim that the scheduler is to bind.
// Other unbound claims are somebody else's to bind first: the PV controller's
// (immediate class, volume named by the user) or the administrator's (no such
// class).
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
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return nil, refuse(immediate)
	}
	return class, nil
}
