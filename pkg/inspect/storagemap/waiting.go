// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package storagemap

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// Kinds returns what a map is made of.
func Kinds() []snapshot.Kind {
	return []snapshot.Kind{
		snapshot.KindOf[*corev1.Node](), snapshot.KindOf[*corev1.PersistentVolume](), snapshot.KindOf[*corev1.PersistentVolumeClaim](),
		snapshot.KindOf[*corev1.Pod](), snapshot.KindOf[*storagev1.StorageClass](), snapshot.KindOf[*storagev1.CSIStorageCapacity](),
		snapshot.KindOf[*stowage.LocalDiskReport](),
	}
}

// waitingPods returns the pods without a node whose claims are not bound, or whose scheduler names a volume as a
// reason.
func (m *mapper) waitingPods() []v1alpha1.WaitingPod {
	complete := snapshot.Complete[*corev1.PersistentVolumeClaim](m.s)
	var all []v1alpha1.WaitingPod
	for _, pod := range snapshot.Of[*corev1.Pod](m.s) {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || !claims.Any(pod) || m.Namespace != "" && pod.Namespace != m.Namespace {
			continue
		}
		w := v1alpha1.WaitingPod{Namespace: pod.Namespace, Name: pod.Name, Since: pod.CreationTimestamp}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				w.Message = c.Message
				if !c.LastTransitionTime.IsZero() {
					w.Since = c.LastTransitionTime
				}
			}
		}
		ofClass := m.Class == ""
		for use := range claims.Used(pod) {
			claim := m.claims[snapshot.Name{Namespace: pod.Namespace, Name: use.Name}]
			switch {
			case claim == nil && complete:
				w.Claims = append(w.Claims, v1alpha1.WaitingClaim{Name: use.Name, Missing: true})
			case claim == nil:
			case !plan.IsBound(claim):
				w.Claims = append(w.Claims, v1alpha1.WaitingClaim{Name: use.Name, Class: match.ClaimClass(claim), Bytes: claim.Spec.Resources.Requests.Storage().Value()})
			}
			ofClass = ofClass || claim != nil && match.ClaimClass(claim) == m.Class
		}
		if ofClass && (len(w.Claims) > 0 || aboutVolumes(w.Message)) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.WaitingPod) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// aboutVolumes reports whether the message of a scheduler has a reason of volumes.
func aboutVolumes(message string) bool {
	return slices.ContainsFunc(volumeReasons, func(reason string) bool { return strings.Contains(message, reason) })
}

// volumeReasons are why a node is not possible for the volumes of a pod.
var volumeReasons = func() []string {
	var all []string
	for code := match.Fits + 1; code.String() != match.ReasonCode(255).String(); code++ {
		all = append(all, code.String())
	}
	return all
}()

// capacity is a row of capacities.
type capacity struct {
	v1alpha1.StorageMapCapacity
	nodes map[string]bool
}

// capacityOf returns the capacity of a class in a place.
func (m *mapper) capacityOf(place v1alpha1.StorageMapPlace, class string) *capacity {
	key := m.key(place, class)
	c := m.capacities[key]
	if c == nil {
		c = &capacity{nodes: map[string]bool{}}
		c.StorageMapPlace, c.Class = key.StorageMapPlace, class
		m.capacities[key] = c
	}
	if place.Node != "" {
		c.nodes[place.Node] = true
	}
	return c
}

// capacity adds the CSIStorageCapacities, and the claims that are being provisioned.
func (m *mapper) capacity() {
	for _, object := range snapshot.Of[*storagev1.CSIStorageCapacity](m.s) {
		place := m.places.ofCapacity(object)
		if place == (v1alpha1.StorageMapPlace{}) || !m.selects(place.Node, object.StorageClassName) {
			continue
		}
		c := m.capacityOf(place, object.StorageClassName)
		if object.Capacity != nil {
			c.Bytes = sumOf(c.Bytes, object.Capacity.Value())
		}
		switch {
		case object.MaximumVolumeSize != nil:
			c.LargestBytes = largestOf(c.LargestBytes, object.MaximumVolumeSize.Value())
		case object.Capacity != nil:
			c.LargestBytes = largestOf(c.LargestBytes, object.Capacity.Value())
		}
	}
	for _, claim := range m.claims {
		node, class := claims.SelectedNode(claim), match.ClaimClass(claim)
		if provisioning(claim) && m.selects(node, class) {
			add(&m.capacityOf(m.places.ofNode(node), class).Provisioning, v1alpha1.StorageMapAmount{Volumes: 1, Bytes: claim.Spec.Resources.Requests.Storage().Value()})
		}
	}
}

func sumOf(sum *int64, value int64) *int64 {
	if sum != nil {
		value += *sum
	}
	return &value
}

func largestOf(largest *int64, value int64) *int64 {
	if largest != nil {
		value = max(value, *largest)
	}
	return &value
}

func (m *mapper) sortedCapacities() []v1alpha1.StorageMapCapacity {
	var all []v1alpha1.StorageMapCapacity
	for _, c := range m.capacities {
		if m.By != ByNode {
			c.Nodes = len(c.nodes)
		}
		all = append(all, c.StorageMapCapacity)
	}
	slices.SortFunc(all, func(a, b v1alpha1.StorageMapCapacity) int {
		return cmp.Or(comparePlaces(a.StorageMapPlace, b.StorageMapPlace), cmp.Compare(a.Class, b.Class))
	})
	return all
}
