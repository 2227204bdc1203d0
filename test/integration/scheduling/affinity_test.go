// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestNodeAffinity: of two nodes, the volume can be reached from one only. A
// pod that requires the other one is refused; a pod without preference is placed
// on the right one.
func TestNodeAffinity(t *testing.T) {
	t.Parallel()
	expression := func(key string, operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	in := func(key string, values ...string) v1.NodeSelectorRequirement {
		return expression(key, v1.NodeSelectorOpIn, values...)
	}
	all := func(requirements ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: requirements}
	}
	// Labels of the node that is right and of the one that is wrong.
	type labels map[string]string
	tests := map[string]struct {
		right, wrong labels
		affinity     func(e *fixture.Env) []v1.NodeSelectorTerm
	}{
		"In a zone": {
			right: labels{v1.LabelTopologyZone: "z1"}, wrong: labels{v1.LabelTopologyZone: "z2"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(in(v1.LabelTopologyZone, "z1"))}
			},
		},
		"In one of two zones": {
			right: labels{v1.LabelTopologyZone: "z3"}, wrong: labels{v1.LabelTopologyZone: "z2"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(in(v1.LabelTopologyZone, "z1", "z3"))}
			},
		},
		"NotIn": {
			right: labels{"rack": "r1"}, wrong: labels{"rack": "r2"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(expression("rack", v1.NodeSelectorOpNotIn, "r2", "r3"))}
			},
		},
		"NotIn, label absent": {
			wrong: labels{"rack": "r2"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(expression("rack", v1.NodeSelectorOpNotIn, "r2"))}
			},
		},
		"Exists": {
			right: labels{"san": ""},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(expression("san", v1.NodeSelectorOpExists))}
			},
		},
		"DoesNotExist": {
			wrong: labels{"diskless": "true"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(expression("diskless", v1.NodeSelectorOpDoesNotExist))}
			},
		},
		"Gt": {
			right: labels{"generation": "10"}, wrong: labels{"generation": "9"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(expression("generation", v1.NodeSelectorOpGt, "9"))}
			},
		},
		"Lt": {
			right: labels{"generation": "9"}, wrong: labels{"generation": "10"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(expression("generation", v1.NodeSelectorOpLt, "10"))}
			},
		},
		"Gt of a label that is not a number": {
			right: labels{"generation": "10"}, wrong: labels{"generation": "new"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(expression("generation", v1.NodeSelectorOpGt, "1"))}
			},
		},
		"all requirements of a term": {
			right: labels{"rack": "r1", "disk": "ssd"}, wrong: labels{"rack": "r1", "disk": "hdd"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(in("rack", "r1"), in("disk", "ssd"))}
			},
		},
		"the second of two terms": {
			right: labels{"rack": "r2"}, wrong: labels{"rack": "r3"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(in("rack", "r1")), all(in("rack", "r2"))}
			},
		},
		"a term of another key": {
			right: labels{"san": "s1"}, wrong: labels{"san": "s2"},
			affinity: func(*fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{all(in("rack", "r1")), all(in("san", "s1"))}
			},
		},
		"the node's name": {
			affinity: func(e *fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{in("metadata.name", e.Name("right"))}}}
			},
		},
		"all but a node's name": {
			affinity: func(e *fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
					expression("metadata.name", v1.NodeSelectorOpNotIn, e.Name("wrong")),
				}}}
			},
		},
		"the node's name and a label": {
			right: labels{"disk": "ssd"}, wrong: labels{"disk": "ssd"},
			affinity: func(e *fixture.Env) []v1.NodeSelectorTerm {
				return []v1.NodeSelectorTerm{{
					MatchExpressions: []v1.NodeSelectorRequirement{in("disk", "ssd")},
					MatchFields:      []v1.NodeSelectorRequirement{in("metadata.name", e.Name("right"))},
				}}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			right, wrong := e.Node("right"), e.Node("wrong")
			for key, value := range test.right {
				right.Label(key, value)
			}
			for key, value := range test.wrong {
				wrong.Label(key, value)
			}
			stubborn := create(e, scene{
				nodes:   []*builders.Node{right, wrong},
				volumes: []*builders.PV{e.PV("volume").Affinity(test.affinity(e)...)},
				claims:  []*builders.PVC{e.PVC("data")},
				pod:     on(e, e.Pod("stubborn").PVC("data"), "wrong"),
			})
			refusedByVolumes(e, stubborn, noVolume)
			if bound := e.Bindings(); len(bound) > 0 {
				t.Errorf("claim is bound to %v for a pod that cannot be placed", bound)
			}
			e.DeletePod(stubborn)
			e.WaitScheduled(e.CreatePod(e.Pod("pod").PVC("data")), "right")
			wantBindings(e, map[string]string{"data": "volume"})

			// The same holds for the claim now that it is bound.
			stubborn = e.CreatePod(on(e, e.Pod("stubborn").PVC("data"), "wrong"))
			refusedByVolumes(e, stubborn, nodeConflict)
		})
	}
}

// TestVolumesWithoutAffinity: they can be used on every node.
func TestVolumesWithoutAffinity(t *testing.T) {
	t.Parallel()
	run(t, map[string]scenario{
		"none at all": {
			given: func(e *fixture.Env) scene {
				s := oneNode(e, e.PVC("data"), e.PV("anywhere"))
				s.nodes = append(s.nodes, e.Node("b"))
				s.pod = on(e, e.Pod("pod").PVC("data"), "b")
				return s
			},
			node:    "b",
			volumes: map[string]string{"data": "anywhere"},
		},
		"one of two claims is bound to a node by its volume": {
			given: func(e *fixture.Env) scene {
				s := oneNode(e, e.PVC("data"), e.PV("large-anywhere").Capacity("5Gi"), e.LocalPV("small-on-b", "b"))
				s.nodes = append(s.nodes, e.Node("b"), e.Node("c"))
				s.claims = append(s.claims, e.PVC("log"))
				return s
			},
			node:    "b",
			volumes: map[string]string{"data": "large-anywhere", "log": "small-on-b"},
		},
		"zones: both volumes must be in one": {
			given: func(e *fixture.Env) scene {
				return scene{
					nodes: []*builders.Node{e.Node("a").Zone("z1"), e.Node("b").Zone("z2"), e.Node("c").Zone("z2")},
					volumes: []*builders.PV{
						e.PV("z1").Zone("z1").Capacity("1Gi"),
						e.PV("z2-large").Zone("z2").Capacity("3Gi"), e.PV("z2-small").Zone("z2").Capacity("2Gi"),
					},
					claims: []*builders.PVC{e.PVC("data").Request("1Gi"), e.PVC("log").Request("1Gi")},
				}
			},
			volumes: map[string]string{"data": "z2-large", "log": "z2-small"},
		},
	})
}
