// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package builders

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node builds a Node.
type Node struct{ builder[*v1.Node, *Node] }

// MakeNode starts a Ready node whose hostname label is its name, with a limit of 110 pods.
func MakeNode(name string) *Node {
	resources := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("32"),
		v1.ResourceMemory: resource.MustParse("64Gi"),
		v1.ResourcePods:   resource.MustParse("110"),
	}
	b := &Node{}
	return b.begin(b, &v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			Conditions:  []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	})
}

// Hostname sets the hostname label to something else than the node's name.
func (b *Node) Hostname(name string) *Node { return b.Label(v1.LabelHostname, name) }

// Zone sets the zone label.
func (b *Node) Zone(zone string) *Node { return b.Label(v1.LabelTopologyZone, zone) }
