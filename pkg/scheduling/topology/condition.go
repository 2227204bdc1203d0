// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topology compiles conditions on nodes (the node affinity of a PersistentVolume,
// the node topology of a CSIStorageCapacity, the allowed topologies of a StorageClass)
// and indexes which nodes meet which condition.
//
// Everything here is pure: no client, clock, log or lock. A [Condition] is immutable and
// safe for concurrent use; an [Index] has one owner, which serialises writes against
// reads.
package topology

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Anchor is a label value, or the name of a node (Key = [NodeName]), that a condition
// requires.
type Anchor struct{ Key, Value string }

// NodeName is the Key of an anchor on the node's name. It is not a valid label key, so it
// cannot collide with one.
const NodeName = "metadata.name="

// Condition is a compiled condition on nodes.
type Condition struct {
	key string
	// Every node that meets the condition has at least one of the anchors. Not used if
	// unanchored.
	anchors []Anchor
	// unanchored: the condition has no anchors (only NotIn, Exists, Gt …), so every node
	// has to be evaluated.
	unanchored bool
	admits     func(node *v1.Node) bool
}

// Key identifies the condition: two conditions with the same key admit the
// same nodes. The reverse does not hold (equivalent spellings may differ).
func (c *Condition) Key() string { return c.key }

// Admits reports whether the node meets the condition. It may allocate; the scheduling
// path uses an [Index] instead.
func (c *Condition) Admits(node *v1.Node) bool { return c.admits(node) }

// everywhere is the condition that every node meets.
var everywhere = &Condition{key: "*", unanchored: true, admits: func(*v1.Node) bool { return true }}

// nowhere is the condition that no node meets.
var nowhere = &Condition{key: "-", admits: func(*v1.Node) bool { return false }}

// FromNodeAffinity compiles spec.nodeAffinity of a PersistentVolume. A nil or empty
// affinity admits every node; terms are ORed; matchFields are evaluated (the stock plugin
// ignores them and places pods on nodes that the volume forbids); a term that cannot be
// parsed admits no node, as in component-helpers/storage/volume.CheckNodeAffinity.
func FromNodeAffinity(affinity *v1.VolumeNodeAffinity) *Condition {
	if affinity == nil || affinity.Required == nil {
		return everywhere
	}
	required := affinity.Required
	// Most volumes of a node have one condition, of which the index keeps the first.
	selector := sync.OnceValue(func() *nodeaffinity.LazyErrorNodeSelector { return nodeaffinity.NewLazyErrorNodeSelector(required) })
	c := &Condition{
		key: "affinity:" + nodeSelectorKey(required),
		admits: func(node *v1.Node) bool {
			ok, err := selector().Match(node)
			return ok && err == nil
		},
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
			continue // an empty term matches nothing (v1.NodeSelectorTerm)
		}
		anchors := termAnchors(term)
		if anchors == nil {
			c.anchors, c.unanchored = nil, true
			return c
		}
		c.anchors = append(c.anchors, anchors...)
	}
	return c
}

// FromLabelSelector compiles nodeTopology of a CSIStorageCapacity: nil is
// accessible from no node, empty from every node. A selector that cannot be
// parsed admits no node.
func FromLabelSelector(topology *metav1.LabelSelector) *Condition {
	if topology == nil {
		return nowhere
	}
	selector, err := metav1.LabelSelectorAsSelector(topology)
	if err != nil {
		return nowhere
	}
	if selector.Empty() {
		return everywhere
	}
	c := &Condition{
		// labels.Selector prints its requirements sorted, values included.
		key:        "labels:" + selector.String(),
		unanchored: true,
		admits:     func(node *v1.Node) bool { return selector.Matches(labels.Set(node.Labels)) },
	}
	var best []Anchor
	for key, value := range topology.MatchLabels {
		best = moreSelective(best, []Anchor{{key, value}})
	}
	for i := range topology.MatchExpressions {
		if req := &topology.MatchExpressions[i]; req.Operator == metav1.LabelSelectorOpIn {
			best = moreSelective(best, anchorsOf(req.Key, req.Values))
		}
	}
	if best != nil {
		c.anchors, c.unanchored = best, false
	}
	return c
}

// FromAllowedTopologies compiles allowedTopologies of a StorageClass: terms
// are ORed, expressions within a term ANDed, an empty list admits every node
// and an empty term none.
func FromAllowedTopologies(terms []v1.TopologySelectorTerm) *Condition {
	if len(terms) == 0 {
		return everywhere
	}
	selector := &v1.NodeSelector{}
	for _, term := range terms {
		var converted v1.NodeSelectorTerm
		for _, exp := range term.MatchLabelExpressions {
			converted.MatchExpressions = append(converted.MatchExpressions, v1.NodeSelectorRequirement{
				Key: exp.Key, Operator: v1.NodeSelectorOpIn, Values: exp.Values,
			})
		}
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, converted)
	}
	return FromNodeAffinity(&v1.VolumeNodeAffinity{Required: selector})
}

// termAnchors returns the most selective anchors of a term, nil if it has none.
func termAnchors(term *v1.NodeSelectorTerm) []Anchor {
	var best []Anchor
	for i := range term.MatchFields {
		if req := &term.MatchFields[i]; req.Key == metav1.ObjectNameField && req.Operator == v1.NodeSelectorOpIn {
			best = moreSelective(best, anchorsOf(NodeName, req.Values))
		}
	}
	for i := range term.MatchExpressions {
		if req := &term.MatchExpressions[i]; req.Operator == v1.NodeSelectorOpIn {
			best = moreSelective(best, anchorsOf(req.Key, req.Values))
		}
	}
	return best
}

func anchorsOf(key string, values []string) []Anchor {
	anchors := make([]Anchor, 0, len(values))
	for _, value := range values {
		anchors = append(anchors, Anchor{key, value})
	}
	return anchors
}

// moreSelective returns the list of anchors that fewer nodes are expected to have: names
// and host names first, then the shorter list, then by key for determinism.
func moreSelective(a, b []Anchor) []Anchor {
	if len(b) == 0 || (len(a) > 0 && rank(a) <= rank(b) && (rank(a) < rank(b) || len(a) < len(b) || (len(a) == len(b) && a[0].Key <= b[0].Key))) {
		return a
	}
	return b
}

func rank(anchors []Anchor) int {
	switch anchors[0].Key {
	case NodeName:
		return 0
	case v1.LabelHostname:
		return 1
	}
	return 2
}

// nodeSelectorKey serialises a node selector with terms, requirements and values sorted.
// Strings are quoted so that different selectors have different keys.
func nodeSelectorKey(selector *v1.NodeSelector) string {
	terms := make([]string, 0, len(selector.NodeSelectorTerms))
	for i := range selector.NodeSelectorTerms {
		term := &selector.NodeSelectorTerms[i]
		terms = append(terms, "e"+requirementsKey(term.MatchExpressions)+"f"+requirementsKey(term.MatchFields))
	}
	slices.Sort(terms)
	return joined(slices.Compact(terms))
}

func requirementsKey(requirements []v1.NodeSelectorRequirement) string {
	parts := make([]string, 0, len(requirements))
	for i := range requirements {
		req := &requirements[i]
		values := slices.Clone(req.Values)
		if req.Operator == v1.NodeSelectorOpIn || req.Operator == v1.NodeSelectorOpNotIn {
			slices.Sort(values)
			values = slices.Compact(values)
		}
		var part strings.Builder
		part.WriteString(strconv.Quote(req.Key) + strconv.Quote(string(req.Operator)))
		for _, value := range values {
			part.WriteString(strconv.Quote(value))
		}
		parts = append(parts, part.String())
	}
	slices.Sort(parts)
	return joined(slices.Compact(parts))
}

func joined(parts []string) string {
	size := 2
	for _, part := range parts {
		size += len(part) + 1
	}
	b := append(make([]byte, 0, size), '(')
	for _, part := range parts {
		b = append(append(b, part...), ';')
	}
	return string(append(b, ')'))
}
