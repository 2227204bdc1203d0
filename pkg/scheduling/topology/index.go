// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
)

// Segment is a condition that somebody uses, with the nodes that meet it and
// what its owner keeps for it. Two users of the same condition share one
// segment.
type Segment[S, N any] struct {
	// Data is the owner's.
	Data S

	condition *Condition
	nodes     map[string]*Node[S, N]
	users     int
}

// Key is the key of the segment's condition.
func (s *Segment[S, N]) Key() string { return s.condition.key }

// Admits tells whether the node, as handed in, meets the condition.
func (s *Segment[S, N]) Admits(node *v1.Node) bool { return s.condition.Admits(node) }

// Len is the number of known nodes in the segment.
func (s *Segment[S, N]) Len() int { return len(s.nodes) }

// Nodes calls yield with the name of each known node in the segment, in no
// order, until yield returns false. The index must not change meanwhile.
func (s *Segment[S, N]) Nodes(yield func(name string) bool) {
	for name := range s.nodes {
		if !yield(name) {
			return
		}
	}
}

// Has tells whether the node is known to be in the segment.
func (s *Segment[S, N]) Has(node string) bool { return s.nodes[node] != nil }

// Node is a node of the index with the segments it lies in. What is asked of all
// nodes in turn comes first.
type Node[S, N any] struct {
	// Object is the newest observed, nil when the node is gone; read only.
	Object *v1.Node
	next   atomic.Pointer[Node[S, N]] // that was asked for after this one
	// Data is the owner's.
	Data N

	// Name is the node's, here so that it need not be fetched from Object.
	Name string
	// Segments are those whose condition the node meets, in no order; read
	// only, valid until the index changes.
	Segments []*Segment[S, N]
	room     [2]*Segment[S, N] // where a short list lives, close by
}

// lieIn makes the node's list of segments.
func (n *Node[S, N]) lieIn(segments []*Segment[S, N]) {
	n.Segments = append(n.room[:0], segments...)
}

// Index keeps nodes and segments and who lies in whom. Work happens when a
// node, its labels or the set of segments change; reading is a look-up.
//
// Not safe for concurrent use: the owner holds a lock for every call that
// changes it and may read concurrently between such calls.
type Index[S, N any] struct {
	nodes map[string]*Node[S, N]
	// objects finds a node by the very object, which is most of what is asked:
	// without reading the object.
	objects  map[*v1.Node]*Node[S, N]
	segments map[string]*Segment[S, N]
	made     uint64 // segments, since the beginning
	// anchored finds segments from a node's labels and name.
	anchored map[Anchor][]*Segment[S, N]
	// unanchored segments have to be asked for every node.
	unanchored []*Segment[S, N]
	// holders finds nodes from an anchor, for the keys that some segment is
	// anchored at.
	holders map[string]map[string]map[string]*Node[S, N] // key → value → node name
	// keys counts the segments anchored at each key.
	keys map[string]int
}

// NewIndex returns an empty index.
func NewIndex[S, N any]() *Index[S, N] {
	return &Index[S, N]{
		nodes:    map[string]*Node[S, N]{},
		objects:  map[*v1.Node]*Node[S, N]{},
		segments: map[string]*Segment[S, N]{},
		anchored: map[Anchor][]*Segment[S, N]{},
		holders:  map[string]map[string]map[string]*Node[S, N]{},
		keys:     map[string]int{},
	}
}

// Node returns the node with that name, nil when unknown.
func (x *Index[S, N]) Node(name string) *Node[S, N] { return x.nodes[name] }

// Only returns the segment's node when it has just one, else nil.
func (s *Segment[S, N]) Only() *Node[S, N] {
	if len(s.nodes) == 1 {
		for _, node := range s.nodes {
			return node
		}
	}
	return nil
}

// NodeOf returns the node whose newest object this is, nil when it is another.
func (x *Index[S, N]) NodeOf(object *v1.Node) *Node[S, N] { return x.objects[object] }

// NodeAfter is NodeOf for callers that ask for all nodes again and again, in an
// order of their own, leaving out some: given the node they asked for before, nil
// for none, it needs no search once the order is learned. With nodes that came in
// about that order it walks through memory.
func (x *Index[S, N]) NodeAfter(before *Node[S, N], object *v1.Node) *Node[S, N] {
	if before == nil {
		return x.objects[object]
	}
	next := before
	for range nearby {
		if next = next.next.Load(); next == nil {
			break
		}
		if next.Object == object {
			return next
		}
	}
	return before.followedBy(x.objects[object])
}

// NamedAfter is Node for callers that ask as those of NodeAfter do, and learns the
// same order.
func (x *Index[S, N]) NamedAfter(before *Node[S, N], name string) *Node[S, N] {
	if before == nil {
		return x.nodes[name]
	}
	next := before
	for range nearby {
		if next = next.next.Load(); next == nil {
			break
		}
		if next.Name == name && next.Object != nil {
			return next
		}
	}
	return before.followedBy(x.nodes[name])
}

// followedBy learns which node is asked for next, nil for one that is not known.
func (n *Node[S, N]) followedBy(found *Node[S, N]) *Node[S, N] {
	if found != nil {
		n.next.Store(found)
	}
	return found
}

// nearby is how far NodeAfter and NamedAfter look along the order that they have
// learned.
const nearby = 3

// Nodes calls yield with each node, in no order, until it returns false.
func (x *Index[S, N]) Nodes(yield func(*Node[S, N]) bool) {
	for _, node := range x.nodes {
		if !yield(node) {
			return
		}
	}
}

// Len returns how many nodes and segments there are.
func (x *Index[S, N]) Len() (nodes, segments int) { return len(x.nodes), len(x.segments) }

// Made returns how many segments the index has made, those included that it has no more.
func (x *Index[S, N]) Made() uint64 { return x.made }

// Acquire returns the segment of the condition, made when there is none yet,
// and counts the caller as one of its users.
func (x *Index[S, N]) Acquire(c *Condition) *Segment[S, N] {
	s := x.segments[c.key]
	if s == nil {
		s = &Segment[S, N]{condition: c, nodes: map[string]*Node[S, N]{}}
		x.segments[c.key] = s
		x.made++
		x.anchor(s)
		x.populate(s)
	}
	s.users++
	return s
}

// Release takes one user off the segment; the last one takes the segment out
// of the index.
func (x *Index[S, N]) Release(s *Segment[S, N]) {
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

// SetNode puts the node in, or in the place of its former self, and returns the
// segments that it has left.
func (x *Index[S, N]) SetNode(node *v1.Node) (left []*Segment[S, N]) {
	entry := x.nodes[node.Name]
	switch {
	case entry == nil:
		entry = &Node[S, N]{Name: node.Name}
		x.nodes[node.Name] = entry
	case maps.Equal(entry.Object.Labels, node.Labels):
		x.setObject(entry, node)
		return nil
	default:
		x.dropHolder(entry)
	}
	x.setObject(entry, node)
	x.addHolder(entry)
	left = slices.Clone(entry.Segments)
	for _, s := range left {
		delete(s.nodes, node.Name)
	}
	entry.lieIn(x.SegmentsOf(node))
	for _, s := range entry.Segments {
		s.nodes[node.Name] = entry
	}
	return left
}

func (x *Index[S, N]) setObject(entry *Node[S, N], node *v1.Node) {
	if entry.Object != nil {
		delete(x.objects, entry.Object)
	}
	entry.Object = node
	x.objects[node] = entry
}

// RemoveNode takes the node out and returns the segments that it has left;
// unknown names are fine.
func (x *Index[S, N]) RemoveNode(name string) (left []*Segment[S, N]) {
	entry := x.nodes[name]
	if entry == nil {
		return nil
	}
	x.dropHolder(entry)
	for _, s := range entry.Segments {
		delete(s.nodes, name)
	}
	delete(x.nodes, name)
	delete(x.objects, entry.Object)
	// Another node may still remember this one as the next.
	entry.Object = nil
	entry.next.Store(nil)
	return entry.Segments
}

// SegmentsOf computes the segments that the node, as handed in, lies in. It
// changes nothing, so it also serves nodes that differ from what is indexed.
func (x *Index[S, N]) SegmentsOf(node *v1.Node) []*Segment[S, N] {
	var found []*Segment[S, N]
	consider := func(candidates []*Segment[S, N]) {
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

func (x *Index[S, N]) anchor(s *Segment[S, N]) {
	if s.condition.unanchored {
		x.unanchored = append(x.unanchored, s)
		return
	}
	for _, a := range s.condition.anchors {
		x.anchored[a] = append(x.anchored[a], s)
		if x.keys[a.Key]++; x.keys[a.Key] > 1 {
			continue
		}
		byValue := map[string]map[string]*Node[S, N]{}
		x.holders[a.Key] = byValue
		for _, entry := range x.nodes {
			hold(byValue, a.Key, entry)
		}
	}
}

// populate finds the nodes of a new segment.
func (x *Index[S, N]) populate(s *Segment[S, N]) {
	if s.condition.unanchored {
		x.admit(s, x.nodes)
		return
	}
	for _, a := range s.condition.anchors {
		x.admit(s, x.holders[a.Key][a.Value])
	}
}

func (x *Index[S, N]) admit(s *Segment[S, N], candidates map[string]*Node[S, N]) {
	for name, entry := range candidates {
		if s.nodes[name] == nil && s.condition.Admits(entry.Object) {
			s.nodes[name] = entry
			entry.lieIn(append(slices.Clone(entry.Segments), s))
		}
	}
}

func (x *Index[S, N]) addHolder(entry *Node[S, N]) {
	for key, byValue := range x.holders {
		hold(byValue, key, entry)
	}
}

func hold[S, N any](byValue map[string]map[string]*Node[S, N], key string, entry *Node[S, N]) {
	value, ok := anchorValue(entry.Object, key)
	if !ok {
		return
	}
	names := byValue[value]
	if names == nil {
		names = map[string]*Node[S, N]{}
		byValue[value] = names
	}
	names[entry.Object.Name] = entry
}

func (x *Index[S, N]) dropHolder(entry *Node[S, N]) {
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
