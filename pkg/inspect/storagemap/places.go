// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package storagemap

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/topology"
)

// places finds the nodes of conditions.
type places struct {
	index *topology.Index[*v1alpha1.StorageMapPlace]
	// hosts has the nodes by hostname; an empty name stands for several.
	hosts map[string]string
	// complete: a node that is not in the index does not exist.
	complete bool
}

func newPlaces(s *snapshot.Snapshot) *places {
	p := &places{index: topology.NewIndex[*v1alpha1.StorageMapPlace](), hosts: map[string]string{}, complete: snapshot.Complete[*corev1.Node](s)}
	for _, node := range snapshot.Of[*corev1.Node](s) {
		p.index.SetNode(node)
		host := node.Labels[corev1.LabelHostname]
		switch _, several := p.hosts[host]; {
		case host == "":
		case several:
			p.hosts[host] = ""
		default:
			p.hosts[host] = node.Name
		}
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
	if node := p.hosts[hostname(affinity.Required)]; node != "" { // most volumes: no condition is compiled
		return p.ofNode(node), false
	}
	if place := p.of(topology.FromNodeAffinity(affinity)); place.Nodes > 0 {
		return place, false
	}
	node := cmp.Or(pv.Annotations[wellknown.NodeNameAnnotation], pv.Annotations[wellknown.PavNodeAnnotation], onlyNode(affinity.Required))
	if node == "" {
		return v1alpha1.StorageMapPlace{Zone: onlyValue(affinity.Required, corev1.LabelTopologyZone)}, false
	}
	return p.ofNode(node), false
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

// hostname returns the only hostname that an affinity requires if it requires nothing else; else it is empty.
func hostname(required *corev1.NodeSelector) string {
	if len(required.NodeSelectorTerms) != 1 || len(required.NodeSelectorTerms[0].MatchExpressions) != 1 || len(required.NodeSelectorTerms[0].MatchFields) > 0 {
		return ""
	}
	return onlyValue(required, corev1.LabelHostname)
}

// onlyNode returns the node that an affinity requires by its name or hostname; empty if it requires none or several.
func onlyNode(required *corev1.NodeSelector) string {
	if len(required.NodeSelectorTerms) == 1 {
		for _, f := range required.NodeSelectorTerms[0].MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return onlyValue(required, corev1.LabelHostname)
}

// onlyValue returns the value of a label that an affinity requires; empty if it requires none or several.
func onlyValue(required *corev1.NodeSelector, label string) string {
	if len(required.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, e := range required.NodeSelectorTerms[0].MatchExpressions {
		if e.Key == label && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			return e.Values[0]
		}
	}
	return ""
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
