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

// Segment is a condition that somebody uses, with the nodes that meet it and
// what its owner keeps for it. Two users of the same condition share one
// segment.
type Segment[D any] struct {
	// Data is the owner's.
	Data D

	condition *Condition
	nodes     map[string]*Node[D]
	users     int
}

// Key is the key of the segment's condition.
func (s *Segment[D]) Key() string { return s.condition.key }

// Admits tells whether the node, as handed in, meets the condition.
func (s *Segment[D]) Admits(node *v1.Node) bool { return s.condition.Admits(node) }

// Len is the number of known nodes in the segment.
func (s *Segment[D]) Len() int { return len(s.nodes) }

// Nodes calls yield with the name of each known node in the segment, in no
// order, until yield returns false. The index must not change meanwhile.
func (s *Segment[D]) Nodes(yield func(name string) bool) {
	for name := range s.nodes {
		if !yield(name) {
			return
		}
	}
}

// Has tells whether the node is known to be in the segment.
func (s *Segment[D]) Has(node string) bool { return s.nodes[node] != nil }

// Node is a node of the index with the segments it lies in.
type Node[D any] struct {
	// Name is the node's, here so that it need not be fetched from Object.
	Name string
	// Object is the newest observed; read only.
	Object *v1.Node
	// Segments are those whose condition the node meets, in no order; read
	// only, valid until the index changes.
	Segments []*Segment[D]
	room     [2]*Segment[D] // where a short list lives, close by
}

// lieIn makes the node's list of segments.
func (n *Node[D]) lieIn(segments []*Segment[D]) {
	n.Segments = append(n.room[:0], segments...)
}

// Index keeps nodes and segments and who lies in whom. Work happens when a
// node, its labels or the set of segments change; reading is a look-up.
//
// Not safe for concurrent use: the owner holds a lock for every call that
// changes it and may read concurrently between such calls.
type Index[D any] struct {
	nodes map[string]*Node[D]
	// objects finds a node by the very object, which is most of what is asked:
	// without reading the object.
	objects  map[*v1.Node]*Node[D]
	segments map[string]*Segment[D]
	// anchored finds segments from a node's labels and name.
	anchored map[Anchor][]*Segment[D]
	// unanchored segments have to be asked for every node.
	unanchored []*Segment[D]
	// holders finds nodes from an anchor, for the keys that some segment is
	// anchored at.
	holders map[string]map[string]map[string]*Node[D] // key → value → node name
	// keys counts the segments anchored at each key.
	keys map[string]int
}

// NewIndex returns an empty index.
func NewIndex[D any]() *Index[D] {
	return &Index[D]{
		nodes:    map[string]*Node[D]{},
		objects:  map[*v1.Node]*Node[D]{},
		segments: map[string]*Segment[D]{},
		anchored: map[Anchor][]*Segment[D]{},
		holders:  map[string]map[string]map[string]*Node[D]{},
		keys:     map[string]int{},
	}
}

// Node returns the node with that name, nil when unknown.
func (x *Index[D]) Node(name string) *Node[D] { return x.nodes[name] }

// NodeOf returns the node whose newest object this is, nil when it is another.
func (x *Index[D]) NodeOf(object *v1.Node) *Node[D] { return x.objects[object] }

// Len returns how many nodes and segments there are.
func (x *Index[D]) Len() (nodes, segments int) { return len(x.nodes), len(x.segments) }

// Acquire returns the segment of the condition, made when there is none yet,
// and counts the caller as one of its users.
func (x *Index[D]) Acquire(c *Condition) *Segment[D] {
	s := x.segments[c.key]
	if s == nil {
		s = &Segment[D]{condition: c, nodes: map[string]*Node[D]{}}
		x.segments[c.key] = s
		x.anchor(s)
		x.populate(s)
	}
	s.users++
	return s
}

// Release takes one user off the segment; the last one takes the segment out
// of the index.
func (x *Index[D]) Release(s *Segment[D]) {
	if s.users--; s.users > 0 {
		return
	}
	delete(x.segments, s.condition.key)
	for _, node := range s.nodes {
		node.lieIn(without(node.Segments, s))
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
		if x.keys[a.Key]--; x.keys[a.Key] == 0 {
			delete(x.keys, a.Key)
			delete(x.holders, a.Key)
		}
	}
}

// SetNode puts the node in, or in the place of its former self.
func (x *Index[D]) SetNode(node *v1.Node) {
	entry := x.nodes[node.Name]
	switch {
	case entry == nil:
		entry = &Node[D]{Name: node.Name}
		x.nodes[node.Name] = entry
	case maps.Equal(entry.Object.Labels, node.Labels):
		x.setObject(entry, node)
		return
	default:
		x.dropHolder(entry)
	}
	x.setObject(entry, node)
	x.addHolder(entry)
	for _, s := range entry.Segments {
		delete(s.nodes, node.Name)
	}
	entry.lieIn(x.SegmentsOf(node))
	for _, s := range entry.Segments {
		s.nodes[node.Name] = entry
	}
}

func (x *Index[D]) setObject(entry *Node[D], node *v1.Node) {
	if entry.Object != nil {
		delete(x.objects, entry.Object)
	}
	entry.Object = node
	x.objects[node] = entry
}

// RemoveNode takes the node out; unknown names are fine.
func (x *Index[D]) RemoveNode(name string) {
	entry := x.nodes[name]
	if entry == nil {
		return
	}
	x.dropHolder(entry)
	for _, s := range entry.Segments {
		delete(s.nodes, name)
	}
	delete(x.nodes, name)
	delete(x.objects, entry.Object)
}

// SegmentsOf computes the segments that the node, as handed in, lies in. It
// changes nothing, so it also serves nodes that differ from what is indexed.
func (x *Index[D]) SegmentsOf(node *v1.Node) []*Segment[D] {
	var found []*Segment[D]
	consider := func(candidates []*Segment[D]) {
		for _, s := range candidates {
			if !slices.Contains(found, s) && s.condition.Admits(node) {
				found = append(found, s)
			}
		}
	}
	for key := range x.keys {
		if value, ok := anchorValue(node, key); ok {
			consider(x.anchored[Anchor{key, value}])
		}
	}
	consider(x.unanchored)
	return slices.Clip(found)
}

func anchorValue(node *v1.Node, key string) (string, bool) {
	if key == NodeName {
		return node.Name, true
	}
	value, ok := node.Labels[key]
	return value, ok
}

func (x *Index[D]) anchor(s *Segment[D]) {
	if s.condition.unanchored {
		x.unanchored = append(x.unanchored, s)
		return
	}
	for _, a := range s.condition.anchors {
		x.anchored[a] = append(x.anchored[a], s)
		if x.keys[a.Key]++; x.keys[a.Key] > 1 {
			continue
		}
		byValue := map[string]map[string]*Node[D]{}
		x.holders[a.Key] = byValue
		for _, entry := range x.nodes {
			hold(byValue, a.Key, entry)
		}
	}
}

// populate finds the nodes of a new segment.
func (x *Index[D]) populate(s *Segment[D]) {
	if s.condition.unanchored {
		x.admit(s, x.nodes)
		return
	}
	for _, a := range s.condition.anchors {
		x.admit(s, x.holders[a.Key][a.Value])
	}
}

func (x *Index[D]) admit(s *Segment[D], candidates map[string]*Node[D]) {
	for name, entry := range candidates {
		if s.nodes[name] == nil && s.condition.Admits(entry.Object) {
			s.nodes[name] = entry
			entry.lieIn(append(slices.Clone(entry.Segments), s))
		}
	}
}

func (x *Index[D]) addHolder(entry *Node[D]) {
	for key, byValue := range x.holders {
		hold(byValue, key, entry)
	}
}

func hold[D any](byValue map[string]map[string]*Node[D], key string, entry *Node[D]) {
	value, ok := anchorValue(entry.Object, key)
	if !ok {
		return
	}
	names := byValue[value]
	if names == nil {
		names = map[string]*Node[D]{}
		byValue[value] = names
	}
	names[entry.Object.Name] = entry
}

func (x *Index[D]) dropHolder(entry *Node[D]) {
	for key, byValue := range x.holders {
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

// Check verifies the invariants of the index: each node lies in exactly the
// segments whose condition it meets, both sides agree, and nothing is held
// for anchors nobody uses. Its cost is nodes × segments: for tests.
func (x *Index[D]) Check() error {
	var errs []error
	if len(x.objects) != len(x.nodes) {
		errs = append(errs, fmt.Errorf("%d nodes are found by %d objects", len(x.nodes), len(x.objects)))
	}
	for name, entry := range x.nodes {
		if x.objects[entry.Object] != entry || entry.Name != name {
			errs = append(errs, fmt.Errorf("node %q is not found by its object, or is called %q", name, entry.Name))
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
				errs = append(errs, fmt.Errorf("segment %q holds unknown node %q", key, name))
			}
		}
	}
	for key := range x.holders {
		if x.keys[key] <= 0 {
			errs = append(errs, fmt.Errorf("nodes are held for anchor key %q that no segment uses", key))
		}
	}
	return errors.Join(errs...)
}

// without returns list less item, in a new array: the old one may be read.
func without[T comparable](list []T, item T) []T {
	kept := make([]T, 0, len(list))
	for _, other := range list {
		if other != item {
			kept = append(kept, other)
		}
	}
	return kept
}
