// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builders makes Kubernetes objects for tests in one readable line:
//
//	builders.MakePV("pv-1").Class("local").Capacity("10Gi").Hostname("n1").Obj()
//
// Every builder starts from the smallest object its kind makes sense with,
// each method changes one thing and returns the same builder, and Obj returns
// a copy that the caller owns, so one builder may be used as a template for
// several objects. A quantity that cannot be parsed panics. Builders are not
// safe for concurrent use. Only tests import this package.
package builders

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultNamespace is where namespaced objects live unless set otherwise.
const DefaultNamespace = metav1.NamespaceDefault

// deletedAt is the deletion time of every object that is being deleted: a
// constant, so that objects compare equal between runs.
var deletedAt = metav1.NewTime(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))

// builder is what all builders have: B is the builder, and O the kind of its object.
type builder[O interface {
	metav1.Object
	DeepCopy() O
}, B any] struct {
	object O
	self   B
}

func (b *builder[O, B]) begin(self B, object O) B {
	b.self, b.object = self, object
	return self
}

// Obj returns a copy of what was built.
func (b *builder[O, B]) Obj() O { return b.object.DeepCopy() }

// Name sets metadata.name, to use the builder as a template.
func (b *builder[O, B]) Name(name string) B { b.object.SetName(name); return b.self }

// Namespace sets metadata.namespace.
func (b *builder[O, B]) Namespace(namespace string) B {
	b.object.SetNamespace(namespace)
	return b.self
}

// UID sets metadata.uid.
func (b *builder[O, B]) UID(uid string) B { b.object.SetUID(types.UID(uid)); return b.self }

// ResourceVersion sets metadata.resourceVersion.
func (b *builder[O, B]) ResourceVersion(rv string) B { b.object.SetResourceVersion(rv); return b.self }

// Label adds one label.
func (b *builder[O, B]) Label(key, value string) B {
	b.object.SetLabels(with(b.object.GetLabels(), key, value))
	return b.self
}

// Annotation adds one annotation.
func (b *builder[O, B]) Annotation(key, value string) B {
	b.object.SetAnnotations(with(b.object.GetAnnotations(), key, value))
	return b.self
}

// Change calls do with the object, for what no method sets.
func (b *builder[O, B]) Change(do func(O)) B { do(b.object); return b.self }

// with returns the map, or a new one for nil, with one key more.
func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// In is the requirement that a node label has one of the values.
func In(key string, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: slices.Clone(values)}
}

// Requirement is a node selector requirement with any operator.
func Requirement(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: key, Operator: op, Values: slices.Clone(values)}
}

// Term is a node selector term whose label requirements must all hold.
func Term(requirements ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: slices.Clone(requirements)}
}

// FieldTerm is a node selector term whose field requirements must all hold.
func FieldTerm(requirements ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchFields: slices.Clone(requirements)}
}

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
