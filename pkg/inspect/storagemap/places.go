// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package storagemap

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/inspect/localdisks"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

// places finds the nodes of conditions.
type places struct {
	index *topology.Index[*v1alpha1.StorageMapPlace]
	hosts map[string]string // nodes by hostname
	// complete: a node that is not in the index does not exist.
	complete bool
}

func newPlaces(s *snapshot.Snapshot) *places {
	p := &places{index: topology.NewIndex[*v1alpha1.StorageMapPlace](), hosts: localdisks.Hosts(s), complete: snapshot.Complete[*corev1.Node](s)}
	for _, node := range snapshot.Of[*corev1.Node](s) {
		p.index.SetNode(node)
	}
	return p
}

// ofNode returns the place of a node's disks.
func (p *places) ofNode(name string) v1alpha1.StorageMapPlace {
	place := v1alpha1.StorageMapPlace{Node: name, Nodes: 1}
	switch node := p.index.Node(name); {
	case node != nil:
		place.Zone, place.NodeState = node.Object.Labels[corev1.LabelTopologyZone], stateOf(node.Object)
	case p.complete:
		place.NodeState = v1alpha1.NodeMissing
	}
	return place
}

func stateOf(node *corev1.Node) v1alpha1.NodeState {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return v1alpha1.NodeNotReady
		}
	}
	if node.Spec.Unschedulable {
		return v1alpha1.NodeCordoned
	}
	return ""
}

// ofVolume returns where a volume can be used. It has no place if that is everywhere.
func (p *places) ofVolume(pv *corev1.PersistentVolume) (place v1alpha1.StorageMapPlace, everywhere bool) {
	affinity := pv.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return v1alpha1.StorageMapPlace{}, true
	}
	if node := p.hosts[localdisks.Hostname(pv)]; node != "" { // most volumes: no condition is compiled
		return p.ofNode(node), false
	}
	if place := p.of(topology.FromNodeAffinity(affinity)); place.Nodes > 0 {
		return place, false
	}
	if node := localdisks.NodeOf(pv, p.hosts); node != "" {
		return p.ofNode(node), false
	}
	return v1alpha1.StorageMapPlace{Zone: localdisks.OnlyValue(affinity, corev1.LabelTopologyZone)}, false
}

// ofCapacity returns where a driver can provision; the zero place if that is nowhere.
func (p *places) ofCapacity(object *storagev1.CSIStorageCapacity) v1alpha1.StorageMapPlace {
	place := p.of(topology.FromLabelSelector(object.NodeTopology))
	if place.Nodes > 0 || p.complete || object.NodeTopology == nil {
		return place
	}
	required := object.NodeTopology.MatchLabels
	if node := cmp.Or(object.Annotations[wellknown.PavNodeAnnotation], required[corev1.LabelHostname]); node != "" {
		return p.ofNode(node)
	}
	return v1alpha1.StorageMapPlace{Zone: required[corev1.LabelTopologyZone]}
}

// of returns the place of the nodes that meet a condition.
func (p *places) of(c *topology.Condition) v1alpha1.StorageMapPlace {
	segment := p.index.Acquire(c)
	if segment.Data == nil {
		segment.Data = p.common(segment)
	}
	return *segment.Data
}

// common returns what the nodes of a segment have in common.
func (p *places) common(segment *topology.Segment[*v1alpha1.StorageMapPlace]) *v1alpha1.StorageMapPlace {
	place := &v1alpha1.StorageMapPlace{Nodes: segment.Len()}
	first := true
	for name := range segment.Nodes {
		zone := p.index.Node(name).Object.Labels[corev1.LabelTopologyZone]
		if first {
			place.Node, place.Zone, first = name, zone, false
		} else if place.Zone != zone {
			place.Zone = ""
		}
	}
	switch {
	case place.Nodes != 1:
		place.Node = ""
	default:
		place.NodeState = stateOf(p.index.Node(place.Node).Object)
	}
	return place
}

// comparePlaces sorts by zone and node, each with what has none at the end.
func comparePlaces(a, b v1alpha1.StorageMapPlace) int {
	return cmp.Or(compareNames(a.Zone, b.Zone), compareNames(a.Node, b.Node), cmp.Compare(a.Nodes, b.Nodes))
}

func compareNames(a, b string) int {
	if (a == "") != (b == "") {
		return -cmp.Compare(a, b)
	}
	return cmp.Compare(a, b)
}
