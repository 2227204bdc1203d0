// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Segment is a condition in use, the nodes that meet it, and data of the index's owner.
// Users of the same condition share one segment.
type Segment[S any] struct {
	// Data is the owner's.
	Data S

	condition *Condition
	nodes     map[string]*Node[S]
	users     int
}

// Key is the key of the segment's condition.
func (s *Segment[S]) Key() string { return s.condition.key }

// Admits reports whether the given version of the node meets the condition.
func (s *Segment[S]) Admits(node *v1.Node) bool { return s.condition.Admits(node) }

// Len is the number of known nodes in the segment.
func (s *Segment[S]) Len() int { return len(s.nodes) }

// Nodes calls yield with the name of each known node in the segment, in no
// order, until yield returns false. The index must not change meanwhile.
func (s *Segment[S]) Nodes(yield func(name string) bool) {
	for name := range s.nodes {
		if !yield(name) {
			return
		}
	}
}

// Has reports whether the node is known to be in the segment.
func (s *Segment[S]) Has(node string) bool { return s.nodes[node] != nil }

// Node is a node of the index with the segments it is in. The fields that are read for
// every node in turn come first.
type Node[S any] struct {
	// Object is the newest version observed, nil if the node was removed; read only.
	Object *v1.Node

	// Name is the node's name, duplicated to avoid a dereference of Object.
	Name string
	// Segments are those whose condition the node meets, in no order; read
	// only, valid until the index changes.
	Segments []*Segment[S]
	inline   [2]*Segment[S] // backing array of a short list
}

// setSegments sets the node's list of segments.
func (n *Node[S]) setSegments(segments []*Segment[S]) {
	n.Segments = append(n.inline[:0], segments...)
}

// Index maintains nodes, segments and their membership. It is updated when a node, its
// labels or the set of segments change; reads are look-ups.
//
// Not safe for concurrent use: the owner serialises writes and may read concurrently
// between them.
type Index[S any] struct {
	nodes map[string]*Node[S]
	// objects finds a node by pointer, which serves most look-ups without reading the
	// object.
	objects  map[*v1.Node]*Node[S]
	segments map[string]*Segment[S]
	created  uint64 // segments created so far
	// anchored finds segments from a node's labels and name.
	anchored map[Anchor][]*Segment[S]
	// unanchored segments are evaluated for every node.
	unanchored []*Segment[S]
	// nodesByAnchor finds nodes by anchor, for the keys that some segment is anchored at.
	nodesByAnchor map[string]map[string]map[string]*Node[S] // key → value → node name
	// anchorKeys counts the segments anchored at each key.
	anchorKeys map[string]int
}

// NewIndex returns an empty index.
func NewIndex[S any]() *Index[S] {
	return &Index[S]{
		nodes:         map[string]*Node[S]{},
		objects:       map[*v1.Node]*Node[S]{},
		segments:      map[string]*Segment[S]{},
		anchored:      map[Anchor][]*Segment[S]{},
		nodesByAnchor: map[string]map[string]map[string]*Node[S]{},
		anchorKeys:    map[string]int{},
	}
}

// Node returns the node with that name, nil when unknown.
func (x *Index[S]) Node(name string) *Node[S] { return x.nodes[name] }

// NodeByObject returns the node whose newest object is this one, nil if there is none.
func (x *Index[S]) NodeByObject(object *v1.Node) *Node[S] { return x.objects[object] }

// Nodes calls yield with each node, in no order, until it returns false.
func (x *Index[S]) Nodes(yield func(*Node[S]) bool) {
	for _, node := range x.nodes {
		if !yield(node) {
			return
		}
	}
}

// Len returns how many nodes and segments there are.
func (x *Index[S]) Len() (nodes, segments int) { return len(x.nodes), len(x.segments) }

// SegmentsCreated returns how many segments the index has created, removed ones included.
func (x *Index[S]) SegmentsCreated() uint64 { return x.created }

// Acquire returns the segment of the condition, creating it if necessary, and adds the
// caller to its users.
func (x *Index[S]) Acquire(c *Condition) *Segment[S] {
	s := x.segments[c.key]
	if s == nil {
		s = &Segment[S]{condition: c, nodes: map[string]*Node[S]{}}
		x.segments[c.key] = s
		x.created++
		x.anchor(s)
		x.populate(s)
	}
	s.users++
	return s
}

// Release removes one user of the segment; the segment is removed with its last user.
func (x *Index[S]) Release(s *Segment[S]) {
	if s.users--; s.users > 0 {
		return
	}
	delete(x.segments, s.condition.key)
	for _, node := range s.nodes {
		node.setSegments(without(node.Segments, s))
	}
	if s.condition.unanchored {
		x.unanchored = without(x.unanchored, s)
		return
	}
	for _, a := range s.condition.anchors {
		if rest := without(x.anchored[a], s); len(rest) > 0 {
			x.anchored[a] = rest
		} else {
			delete(x.anchored, a)
		}
		if x.anchorKeys[a.Key]--; x.anchorKeys[a.Key] == 0 {
			delete(x.anchorKeys, a.Key)
			delete(x.nodesByAnchor, a.Key)
		}
	}
}

// SetNode adds or replaces the node.
func (x *Index[S]) SetNode(node *v1.Node) {
	entry := x.nodes[node.Name]
	switch {
	case entry == nil:
		entry = &Node[S]{Name: node.Name}
		x.nodes[node.Name] = entry
	case maps.Equal(entry.Object.Labels, node.Labels):
		x.setObject(entry, node)
		return
	default:
		x.unindexNode(entry)
	}
	x.setObject(entry, node)
	x.indexNode(entry)
	for _, s := range entry.Segments {
		delete(s.nodes, node.Name)
	}
	entry.setSegments(x.SegmentsOf(node))
	for _, s := range entry.Segments {
		s.nodes[node.Name] = entry
	}
}

func (x *Index[S]) setObject(entry *Node[S], node *v1.Node) {
	if entry.Object != nil {
		delete(x.objects, entry.Object)
	}
	entry.Object = node
	x.objects[node] = entry
}

// RemoveNode removes the node. Unknown names are ignored.
func (x *Index[S]) RemoveNode(name string) {
	entry := x.nodes[name]
	if entry == nil {
		return
	}
	x.unindexNode(entry)
	for _, s := range entry.Segments {
		delete(s.nodes, name)
	}
	delete(x.nodes, name)
	delete(x.objects, entry.Object)
}

// SegmentsOf computes the segments of the given version of a node. It does not change the
// index, so it also serves versions that are not indexed.
func (x *Index[S]) SegmentsOf(node *v1.Node) []*Segment[S] {
	var found []*Segment[S]
	collect := func(candidates []*Segment[S]) {
		for _, s := range candidates {
			if !slices.Contains(found, s) && s.condition.Admits(node) {
				found = append(found, s)
			}
		}
	}
	for key := range x.anchorKeys {
		if value, ok := anchorValue(node, key); ok {
			collect(x.anchored[Anchor{key, value}])
		}
	}
	collect(x.unanchored)
	return slices.Clip(found)
}

func anchorValue(node *v1.Node, key string) (string, bool) {
	if key == NodeName {
		return node.Name, true
	}
	value, ok := node.Labels[key]
	return value, ok
}

func (x *Index[S]) anchor(s *Segment[S]) {
	if s.condition.unanchored {
		x.unanchored = append(x.unanchored, s)
		return
	}
	for _, a := range s.condition.anchors {
		x.anchored[a] = append(x.anchored[a], s)
		if x.anchorKeys[a.Key]++; x.anchorKeys[a.Key] > 1 {
			continue
		}
		byValue := map[string]map[string]*Node[S]{}
		x.nodesByAnchor[a.Key] = byValue
		for _, entry := range x.nodes {
			addToAnchor(byValue, a.Key, entry)
		}
	}
}

// populate finds the nodes of a new segment.
func (x *Index[S]) populate(s *Segment[S]) {
	if s.condition.unanchored {
		x.admit(s, x.nodes)
		return
	}
	for _, a := range s.condition.anchors {
		x.admit(s, x.nodesByAnchor[a.Key][a.Value])
	}
}

func (x *Index[S]) admit(s *Segment[S], candidates map[string]*Node[S]) {
	for name, entry := range candidates {
		if s.nodes[name] == nil && s.condition.Admits(entry.Object) {
			s.nodes[name] = entry
			entry.setSegments(append(slices.Clone(entry.Segments), s))
		}
	}
}

func (x *Index[S]) indexNode(entry *Node[S]) {
	for key, byValue := range x.nodesByAnchor {
		addToAnchor(byValue, key, entry)
	}
}

func addToAnchor[S any](byValue map[string]map[string]*Node[S], key string, entry *Node[S]) {
	value, ok := anchorValue(entry.Object, key)
	if !ok {
		return
	}
	names := byValue[value]
	if names == nil {
		names = map[string]*Node[S]{}
		byValue[value] = names
	}
	names[entry.Object.Name] = entry
}

func (x *Index[S]) unindexNode(entry *Node[S]) {
	for key, byValue := range x.nodesByAnchor {
		value, ok := anchorValue(entry.Object, key)
		if !ok {
			continue
		}
		if names := byValue[value]; names != nil {
			if delete(names, entry.Object.Name); len(names) == 0 {
				delete(byValue, value)
			}
		}
	}
}

// without returns list without item, in a new array because the old one may be in use.
func without[T comparable](list []T, item T) []T {
	kept := make([]T, 0, len(list))
	for _, other := range list {
		if other != item {
			kept = append(kept, other)
		}
	}
	return kept
}

// Check verifies the invariants of the index: each node is in exactly the segments whose
// condition it meets, both sides agree, and no nodes are indexed for unused anchor keys.
// Its cost is nodes × segments: for tests.
func (x *Index[S]) Check() error {
	var errs []error
	if len(x.objects) != len(x.nodes) {
		errs = append(errs, fmt.Errorf("%d nodes, %d objects", len(x.nodes), len(x.objects)))
	}
	for name, entry := range x.nodes {
		if x.objects[entry.Object] != entry || entry.Name != name {
			errs = append(errs, fmt.Errorf("node %q is not indexed by its object, or its entry is named %q", name, entry.Name))
		}
		for key, s := range x.segments {
			in, listed := s.nodes[name] == entry, slices.Contains(entry.Segments, s)
			if want := s.condition.Admits(entry.Object); in != want || listed != want {
				errs = append(errs, fmt.Errorf("node %q, segment %q: met %t, in segment %t, listed at node %t", name, key, want, in, listed))
			}
		}
	}
	for key, s := range x.segments {
		if s.users <= 0 {
			errs = append(errs, fmt.Errorf("segment %q has %d users", key, s.users))
		}
		for name := range s.nodes {
			if x.nodes[name] == nil {
				errs = append(errs, fmt.Errorf("segment %q contains unknown node %q", key, name))
			}
		}
	}
	for key := range x.nodesByAnchor {
		if x.anchorKeys[key] <= 0 {
			errs = append(errs, fmt.Errorf("nodes are indexed for anchor key %q that no segment uses", key))
		}
	}
	return errors.Join(errs...)
}
