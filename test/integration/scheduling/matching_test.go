// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// oneNode is a scene with all objects on node a.
func oneNode(e *fixture.Env, claim *builders.PVC, volumes ...*builders.PV) scene {
	return scene{nodes: []*builders.Node{e.Node("a")}, volumes: volumes, claims: []*builders.PVC{claim}}
}

// TestMatching: the requirements of a claim on its volume.
func TestMatching(t *testing.T) {
	t.Parallel()
	csi := func(e *fixture.Env, name string) *builders.PV {
		return e.PV(name).CSI("csi.example.com", name).Hostname(e.Name("a"))
	}
	run(t, map[string]scenario{
		"a block claim does not get a file system": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").Block(), e.LocalPV("filesystem", "a"))
			},
			refusal: noVolume,
		},
		"a file system claim does not get a block volume": {
			given:   func(e *fixture.Env) scene { return oneNode(e, e.PVC("data"), csi(e, "block").Block()) },
			refusal: noVolume,
		},
		"a block claim gets the block volume": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").Block(), csi(e, "a-filesystem"), csi(e, "block").Block())
			},
			volumes: map[string]string{"data": "block"},
		},
		"all access modes of the claim are needed": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").AccessModes(v1.ReadWriteOnce, v1.ReadOnlyMany),
					e.LocalPV("a-writes", "a").AccessModes(v1.ReadWriteOnce),
					e.LocalPV("b-reads", "a").AccessModes(v1.ReadOnlyMany))
			},
			refusal: noVolume,
		},
		"a volume may have more access modes than the claim": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").AccessModes(v1.ReadWriteMany),
					e.LocalPV("a-once", "a"), e.LocalPV("many", "a").AccessModes(v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany))
			},
			volumes: map[string]string{"data": "many"},
		},
		"ReadWriteOncePod is a separate mode": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").AccessModes(v1.ReadWriteOncePod),
					csi(e, "a-once"), csi(e, "once-pod").AccessModes(v1.ReadWriteOncePod))
			},
			volumes: map[string]string{"data": "once-pod"},
		},
		"the claim's attributes class is needed": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").AttributesClass("fast"),
					csi(e, "a-none"), csi(e, "b-slow").AttributesClass("slow"), csi(e, "fast").AttributesClass("fast"))
			},
			volumes: map[string]string{"data": "fast"},
		},
		"another attributes class does not do": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").AttributesClass("fast"), csi(e, "none"), csi(e, "slow").AttributesClass("slow"))
			},
			refusal: noVolume,
		},
		"a claim without attributes class does not get a volume that has one": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data"), csi(e, "fast").AttributesClass("fast"))
			},
			refusal: noVolume,
		},
		"the selector must match": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").MatchLabel("disk", "ssd").MatchExpression("rack", "NotIn", "r1"),
					e.LocalPV("a-spinning", "a").Label("disk", "hdd"),
					e.LocalPV("b-wrong-rack", "a").Label("disk", "ssd").Label("rack", "r1"),
					e.LocalPV("c-unlabelled", "a"),
					e.LocalPV("right", "a").Label("disk", "ssd").Label("rack", "r2"))
			},
			volumes: map[string]string{"data": "right"},
		},
		"no volume is selected": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").MatchLabel("disk", "ssd"), e.LocalPV("spinning", "a").Label("disk", "hdd"))
			},
			refusal: noVolume,
		},
		"another class does not do": {
			given: func(e *fixture.Env) scene {
				e.CreateClass(e.Class("other"))
				return oneNode(e, e.PVC("data"), e.LocalPV("other", "a").Class(e.Name("other")))
			},
			refusal: noVolume,
		},
		"two classes in one pod": {
			given: func(e *fixture.Env) scene {
				e.CreateClass(e.Class("other"))
				s := oneNode(e, e.PVC("data"), e.LocalPV("local", "a"), e.LocalPV("a-other", "a").Class(e.Name("other")))
				s.claims = append(s.claims, e.PVC("log").Class(e.Name("other")))
				return s
			},
			volumes: map[string]string{"data": "local", "log": "a-other"},
		},
		"the class of claim and volume may be in the beta annotation": {
			given: func(e *fixture.Env) scene {
				claim := builders.MakePVC("data").Namespace(e.Namespace).BetaClass(e.Name("local"))
				return oneNode(e, claim, e.LocalPV("beta", "a").Class("").BetaClass(e.Name("local")))
			},
			volumes: map[string]string{"data": "beta"},
		},
		"the beta annotation on the claim only": {
			given: func(e *fixture.Env) scene {
				claim := builders.MakePVC("data").Namespace(e.Namespace).BetaClass(e.Name("local"))
				return oneNode(e, claim, e.LocalPV("spec", "a"))
			},
			volumes: map[string]string{"data": "spec"},
		},
		"the beta annotation on the volume only": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data"), e.LocalPV("beta", "a").Class("").BetaClass(e.Name("local")))
			},
			volumes: map[string]string{"data": "beta"},
		},
	})
}

// TestReadWriteOncePod: the second pod waits until the first is deleted.
func TestReadWriteOncePod(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a"), e.Node("b"))
	e.CreatePVs(e.PV("once").CSI("csi.example.com", "once").AccessModes(v1.ReadWriteOncePod))
	e.CreatePVC(e.PVC("data").AccessModes(v1.ReadWriteOncePod))
	first := e.CreatePod(e.Pod("first").PVC("data"))
	e.WaitScheduled(first)
	e.WaitBound("data", "once")
	second := e.CreatePod(e.Pod("second").PVC("data"))
	e.WaitUnschedulable(second, "ReadWriteOncePod access mode")
	e.DeletePod(first)
	e.WaitScheduled(second)
}
