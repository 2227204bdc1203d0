// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules decides which claims the controller binds without a pod, and what it says about
// those that wait. It is pure.
package rules

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// Annotation of claims that means the same as wellknown.BindAnnotation.
type Annotation struct {
	Key string
	// Value that the annotation must have; empty for any.
	Value string
}

// Waits reports whether the claim is pending and one of its annotations may mean that it is to
// be bound now.
func Waits(claim *corev1.PersistentVolumeClaim, others []Annotation) bool {
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimPending && claim.Status.Phase != "" {
		return false
	}
	_, set := claim.Annotations[wellknown.BindAnnotation]
	return set || requestedOtherwise(claim, others)
}

// Requested reports whether a claim that waits is to be bound now. If not, its annotation is invalid.
func Requested(claim *corev1.PersistentVolumeClaim, others []Annotation) bool {
	return claim.Annotations[wellknown.BindAnnotation] == wellknown.BindNow || requestedOtherwise(claim, others)
}

// Invalid describes an annotation with a value that is not allowed.
func Invalid(claim *corev1.PersistentVolumeClaim) string {
	return fmt.Sprintf("annotation %s: %q is not allowed: set it to %s, or remove it",
		wellknown.BindAnnotation, claim.Annotations[wellknown.BindAnnotation], wellknown.BindNow)
}

func requestedOtherwise(claim *corev1.PersistentVolumeClaim, others []Annotation) bool {
	return slices.ContainsFunc(others, func(a Annotation) bool {
		value, set := claim.Annotations[a.Key]
		return set && (a.Value == "" || value == a.Value)
	})
}

// Node returns the node that the claim's volume must be usable on, empty for any.
func Node(claim *corev1.PersistentVolumeClaim) string {
	return claim.Annotations[wellknown.BindNodeAnnotation]
}

// Scheduling reports whether a scheduler may bind the claims of the pod: it has no scheduling
// gates and has not ended.
func Scheduling(pod *corev1.Pod) bool {
	return len(pod.Spec.SchedulingGates) == 0 && pod.DeletionTimestamp == nil &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// Stock is what is free of a class, for users.
type Stock struct {
	Volumes int
	// Largest is the bytes of the largest volume.
	Largest int64
}

// Unserved describes why a claim waits and what helps.
func Unserved(claim *corev1.PersistentVolumeClaim, class string, why match.Reason, free Stock) string {
	on := ""
	if node := Node(claim); node != "" {
		on = fmt.Sprintf(" on node %q", node)
	}
	switch why.Code {
	case match.NoVolume:
		return fmt.Sprintf("no free volume of StorageClass %q%s serves the claim (%s): %s. It is bound when a volume that fits is free", class, on, wants(claim), free)
	case match.NotEnoughSpace:
		return fmt.Sprintf("no node has enough free capacity of StorageClass %q%s for %s. It is provisioned when a node has", class, on, size(claim))
	case match.TopologyNotAllowed:
		return fmt.Sprintf("no node can be selected%s: it must exist, be ready and not cordoned, run the driver, and be in allowedTopologies of StorageClass %q", on, class)
	case match.NodeConflict:
		return fmt.Sprintf("node %q does not exist: correct the annotation %s, or remove it", Node(claim), wellknown.BindNodeAnnotation)
	case match.NodeNotSelected:
		return fmt.Sprintf("its volume is being provisioned on the node of its selected-node, not%s: correct the annotation %s, or remove it", on, wellknown.BindNodeAnnotation)
	case match.ReservedVolumeMismatch:
		return fmt.Sprintf("volume %q is reserved for the claim and does not fit it%s: remove the volume's claimRef, or create a claim that fits", why.Volume, on)
	}
	return fmt.Sprintf("volume %q is reserved for the claim, and its disk is not usable: %s", why.Volume, strings.TrimPrefix(why.Code.String(), "node(s) unavailable because "))
}

// String describes the stock.
func (s Stock) String() string {
	if s.Volumes == 0 {
		return "none is free"
	}
	return fmt.Sprintf("of %d that are free, the largest has %s", s.Volumes, resource.NewQuantity(s.Largest, resource.BinarySI))
}

func wants(claim *corev1.PersistentVolumeClaim) string {
	parts := []string{size(claim)}
	for _, mode := range claim.Spec.AccessModes {
		parts = append(parts, string(mode))
	}
	if mode := claim.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		parts = append(parts, string(*mode))
	}
	if claim.Spec.Selector != nil {
		parts = append(parts, "a selector")
	}
	return strings.Join(parts, ", ")
}

func size(claim *corev1.PersistentVolumeClaim) string {
	return claim.Spec.Resources.Requests.Storage().String()
}
