// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestStaticWaitForFirstConsumer: the only node with enough volumes for all of
// the pod's claims is chosen, and each claim is bound to the volume of its size.
func TestStaticWaitForFirstConsumer(t *testing.T) {
	t.Parallel()
	for claims := 1; claims <= 4; claims++ {
		t.Run(fmt.Sprintf("claims=%d", claims), func(t *testing.T) {
			t.Parallel()
			fixture.BothModes(t, staticScenario(claims).happens)
		})
	}
}

func staticScenario(claims int) scenario {
	s := scenario{node: "enough", volumes: map[string]string{}}
	for i := range claims {
		s.volumes[fmt.Sprintf("claim-%d", i)] = fmt.Sprintf("volume-%d", i)
	}
	s.given = func(e *fixture.Env) scene {
		g := scene{nodes: []*builders.Node{e.Node("few"), e.Node("enough")}}
		for i := range claims {
			size := fmt.Sprintf("%dGi", i+1)
			g.claims = append(g.claims, e.PVC(fmt.Sprintf("claim-%d", i)).Request(size))
			g.volumes = append(g.volumes, e.LocalPV(fmt.Sprintf("volume-%d", i), "enough").Capacity(size))
			if i > 0 {
				g.volumes = append(g.volumes, e.LocalPV(fmt.Sprintf("other-%d", i), "few").Capacity(size))
			}
		}
		return g
	}
	return s
}

// TestNotEnoughVolumes: one volume less than the pod needs.
func TestNotEnoughVolumes(t *testing.T) {
	t.Parallel()
	for claims := 1; claims <= 4; claims++ {
		t.Run(fmt.Sprintf("claims=%d", claims), func(t *testing.T) {
			t.Parallel()
			s := staticScenario(claims)
			given := s.given
			s.given = func(e *fixture.Env) scene {
				g := given(e)
				g.volumes = g.volumes[1:]
				return g
			}
			s.refusal = noVolume
			s.happens(fixture.New(t))
		})
	}
}

// TestJointAssignment: matching one claim after the other, smallest first and
// each with its smallest volume, leaves a claim without a volume here.
func TestJointAssignment(t *testing.T) {
	t.Parallel()
	run(t, map[string]scenario{
		"selector: the smaller claim must leave the gold volume to the larger one": {
			given: func(e *fixture.Env) scene {
				return scene{
					nodes: []*builders.Node{e.Node("a")},
					volumes: []*builders.PV{
						e.LocalPV("gold", "a").Capacity("2Gi").Label("tier", "gold"),
						e.LocalPV("plain", "a").Capacity("5Gi"),
					},
					claims: []*builders.PVC{
						e.PVC("any").Request("1Gi"),
						e.PVC("gold").Request("2Gi").MatchLabel("tier", "gold"),
					},
				}
			},
			node:    "a",
			volumes: map[string]string{"any": "plain", "gold": "gold"},
		},
		"access modes, modest claim first": accessModesScenario("modest", "demanding"),
		"access modes, modest claim last":  accessModesScenario("demanding", "modest"),
		"one claim in two volumes of the pod takes one volume": {
			given: func(e *fixture.Env) scene {
				return scene{
					nodes:   []*builders.Node{e.Node("a")},
					volumes: []*builders.PV{e.LocalPV("only", "a")},
					claims:  []*builders.PVC{e.PVC("data")},
					pod:     e.Pod("pod").PVC("data", "data"),
				}
			},
			node:    "a",
			volumes: map[string]string{"data": "only"},
		},
		"one claim in two volumes of the pod takes the smaller of two volumes": {
			given: func(e *fixture.Env) scene {
				return scene{
					nodes: []*builders.Node{e.Node("a")},
					volumes: []*builders.PV{
						e.LocalPV("larger", "a").Capacity("2Gi"), e.LocalPV("smaller", "a"),
					},
					claims: []*builders.PVC{e.PVC("data")},
					pod:    e.Pod("pod").PVC("data", "data"),
				}
			},
			node:    "a",
			volumes: map[string]string{"data": "smaller"},
		},
		"four claims in a chain: each has two volumes to choose from, and one assignment serves all": {
			given: func(e *fixture.Env) scene {
				tier := func(names ...string) *builders.PVC {
					return e.PVC("claim-"+names[0]).MatchExpression("tier", "In", names...)
				}
				volume := func(name string) *builders.PV { return e.LocalPV("tier-"+name, "a").Label("tier", name) }
				return scene{
					nodes:   []*builders.Node{e.Node("a")},
					volumes: []*builders.PV{volume("1"), volume("2"), volume("3"), volume("4")},
					claims:  []*builders.PVC{tier("2", "1"), tier("3", "2"), tier("4", "3"), tier("1")},
				}
			},
			node:    "a",
			volumes: map[string]string{"claim-2": "tier-2", "claim-3": "tier-3", "claim-4": "tier-4", "claim-1": "tier-1"},
		},
		"two nodes that together have the volumes are not enough": {
			given: func(e *fixture.Env) scene {
				return scene{
					nodes:   []*builders.Node{e.Node("a"), e.Node("b")},
					volumes: []*builders.PV{e.LocalPV("on-a", "a"), e.LocalPV("on-b", "b")},
					claims:  []*builders.PVC{e.PVC("one"), e.PVC("two")},
				}
			},
			refusal: noVolume,
		},
	})
}

// accessModesScenario: the smaller of two volumes has all requested modes, the
// larger one does not.
func accessModesScenario(order ...string) scenario {
	return scenario{
		given: func(e *fixture.Env) scene {
			return scene{
				nodes: []*builders.Node{e.Node("a")},
				volumes: []*builders.PV{
					e.LocalPV("able", "a").Capacity("1Gi").AccessModes(v1.ReadWriteOnce, v1.ReadWriteMany),
					e.LocalPV("plain", "a").Capacity("2Gi"),
				},
				claims: []*builders.PVC{
					e.PVC("modest"),
					e.PVC("demanding").AccessModes(v1.ReadWriteMany),
				},
				pod: e.Pod("pod").PVC(order...),
			}
		},
		node:    "a",
		volumes: map[string]string{"modest": "plain", "demanding": "able"},
	}
}

// TestCapacityChoice: which of several suitable volumes a claim is bound to.
func TestCapacityChoice(t *testing.T) {
	t.Parallel()
	on := func(e *fixture.Env, volumes ...*builders.PV) scene {
		for _, v := range volumes {
			v.Hostname(e.Name("a"))
		}
		return scene{
			nodes:   []*builders.Node{e.Node("a")},
			volumes: volumes,
			claims:  []*builders.PVC{e.PVC("data").Request("2Gi")},
		}
	}
	run(t, map[string]scenario{
		"the smallest that is enough": {
			given: func(e *fixture.Env) scene {
				return on(e, e.PV("5").Capacity("5Gi"), e.PV("3").Capacity("3Gi"), e.PV("1").Capacity("1Gi"), e.PV("4").Capacity("4Gi"))
			},
			volumes: map[string]string{"data": "3"},
		},
		"exactly the requested size, in other units": {
			given: func(e *fixture.Env) scene {
				return on(e, e.PV("just-more").Capacity("2147483649"), e.PV("exact").Capacity("2048Mi"), e.PV("just-less").Capacity("2147483647"))
			},
			volumes: map[string]string{"data": "exact"},
		},
		"a byte too small is too small": {
			given:   func(e *fixture.Env) scene { return on(e, e.PV("just-less").Capacity("2147483647")) },
			refusal: noVolume,
		},
		"of equal ones that with the fewest unrequested access modes": {
			given: func(e *fixture.Env) scene {
				return on(e,
					e.PV("a").Capacity("2Gi").AccessModes(v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany),
					e.PV("c").Capacity("2Gi").AccessModes(v1.ReadWriteOnce),
					e.PV("b").Capacity("2Gi").AccessModes(v1.ReadWriteOnce, v1.ReadWriteMany))
			},
			volumes: map[string]string{"data": "c"},
		},
		"of equal ones the first by name": {
			given: func(e *fixture.Env) scene {
				return on(e, e.PV("c").Capacity("2Gi"), e.PV("b").Capacity("2Gi"), e.PV("d").Capacity("2Gi"))
			},
			volumes: map[string]string{"data": "b"},
		},
		"size counts before access modes": {
			given: func(e *fixture.Env) scene {
				return on(e,
					e.PV("larger").Capacity("3Gi").AccessModes(v1.ReadWriteOnce),
					e.PV("smaller").Capacity("2Gi").AccessModes(v1.ReadWriteOnce, v1.ReadWriteMany))
			},
			volumes: map[string]string{"data": "smaller"},
		},
		"the node whose volume fits best, before any other": {
			given: func(e *fixture.Env) scene {
				return scene{
					nodes: []*builders.Node{e.Node("a"), e.Node("b"), e.Node("c")},
					volumes: []*builders.PV{
						e.LocalPV("on-a", "a").Capacity("9Gi"), e.LocalPV("on-b", "b").Capacity("2Gi"), e.LocalPV("on-c", "c").Capacity("7Gi"),
					},
					claims: []*builders.PVC{e.PVC("data").Request("2Gi")},
				}
			},
			node:    "b",
			volumes: map[string]string{"data": "on-b"},
		},
	})
}
