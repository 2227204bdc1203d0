// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package builders

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node builds a Node.
type Node struct{ node v1.Node }

// MakeNode starts a Ready node whose hostname label is its name, with a limit of 110 pods.
func MakeNode(name string) *Node {
	resources := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("32"),
		v1.ResourceMemory: resource.MustParse("64Gi"),
		v1.ResourcePods:   resource.MustParse("110"),
	}
	return &Node{v1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			Conditions:  []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}}
}

// Obj returns a copy of what was built.
func (b *Node) Obj() *v1.Node { return b.node.DeepCopy() }

// UID sets metadata.uid.
func (b *Node) UID(uid string) *Node { b.node.UID = types.UID(uid); return b }

// ResourceVersion sets metadata.resourceVersion.
func (b *Node) ResourceVersion(rv string) *Node { b.node.ResourceVersion = rv; return b }

// Label adds one label.
func (b *Node) Label(key, value string) *Node { set(&b.node.Labels, key, value); return b }

// Hostname sets the hostname label to something else than the node's name.
func (b *Node) Hostname(name string) *Node { return b.Label(v1.LabelHostname, name) }

// Zone sets the zone label.
func (b *Node) Zone(zone string) *Node { return b.Label(v1.LabelTopologyZone, zone) }

// Annotation adds one annotation.
func (b *Node) Annotation(key, value string) *Node { set(&b.node.Annotations, key, value); return b }
