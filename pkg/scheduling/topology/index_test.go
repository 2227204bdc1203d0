// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math/rand/v2"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
)

// FuzzIndex changes nodes and conditions in random order and runs Check after each step.
func FuzzIndex(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, seed))
		value := func(prefix string, n int) string { return prefix + strconv.Itoa(rng.IntN(n)) }
		conditions := func() *Condition {
			term, req := builders.Term, builders.Requirement
			switch rng.IntN(7) {
			case 0:
				return FromNodeAffinity(nil)
			case 1:
				return FromNodeAffinity(affinity(term(req(v1.LabelHostname, "In", value("n", 5)))))
			case 2:
				return FromNodeAffinity(affinity(term(req(v1.LabelTopologyZone, "In", value("z", 3), value("z", 3))), term(req("rack", "In", value("r", 2)))))
			case 3:
				return FromNodeAffinity(affinity(term(req("rack", v1.NodeSelectorOpNotIn, value("r", 2)))))
			case 4:
				return FromNodeAffinity(affinity(builders.FieldTerm(req("metadata.name", "In", value("n", 5)))))
			case 5:
				return FromAllowedTopologies([]v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "rack", Values: []string{value("r", 2)}}}}})
			}
			return FromLabelSelector(nil)
		}
		x := NewIndex[int]()
		var held []*Segment[int]
		var objects []*v1.Node // every version that was indexed
		for range 60 {
			switch rng.IntN(5) {
			case 0, 1:
				name := value("n", 5)
				node := builders.MakeNode(name).Hostname(name).Zone(value("z", 3))
				if rng.IntN(2) == 0 {
					node.Label("rack", value("r", 2))
				}
				objects = append(objects, node.Obj())
				x.SetNode(objects[len(objects)-1])
			case 2:
				x.RemoveNode(value("n", 5))
			case 3:
				held = append(held, x.Acquire(conditions()))
			case 4:
				if len(held) > 0 {
					i := rng.IntN(len(held))
					x.Release(held[i])
					held[i] = held[len(held)-1]
					held = held[:len(held)-1]
				}
			}
			if err := x.Check(); err != nil {
				t.Fatal(err)
			}
			for _, object := range objects {
				if found := x.NodeByObject(object); found != nil && (found.Object != object || found != x.Node(object.Name)) {
					t.Fatalf("NodeByObject and Node differ for node %s", object.Name)
				}
			}
		}
		for _, s := range held {
			x.Release(s)
		}
		if _, segments := x.Len(); segments != 0 || len(x.anchored)+len(x.unanchored)+len(x.anchorKeys)+len(x.nodesByAnchor) != 0 {
			t.Errorf("after all segments were released: %d segments, %d anchored, %d unanchored", segments, len(x.anchored), len(x.unanchored))
		}
	})
}

// TestSegmentsAreShared: users of one condition share one segment, whatever its spelling.
func TestSegmentsAreShared(t *testing.T) {
	t.Parallel()
	x := NewIndex[int]()
	x.SetNode(builders.MakeNode("n1").Hostname("n1").Obj())
	on := func(values ...string) *Condition {
		return FromNodeAffinity(affinity(builders.Term(builders.Requirement(v1.LabelHostname, "In", values...))))
	}
	a, b := x.Acquire(on("n1", "n2")), x.Acquire(on("n2", "n1"))
	if a != b || !a.Has("n1") || a.Len() != 1 {
		t.Fatalf("shared %t, nodes %d", a == b, a.Len())
	}
	x.Release(a)
	if _, segments := x.Len(); segments != 1 {
		t.Errorf("%d segments, want 1 while one user is left", segments)
	}
	x.Release(b)
	if _, segments := x.Len(); segments != 0 || len(x.Node("n1").Segments) != 0 {
		t.Errorf("%d segments without users, the node is in %d", segments, len(x.Node("n1").Segments))
	}
}
