// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// provisioner makes no volumes: no provisioner of this name runs.
const provisioner = "stowage.dev/nobody"

// TestPreboundByUser: a volume whose claimRef names the claim comes first, and
// no other will do.
func TestPreboundByUser(t *testing.T) {
	t.Parallel()
	twoNodes := func(e *fixture.Env, claim *builders.PVC, volumes ...*builders.PV) scene {
		s := oneNode(e, claim, volumes...)
		s.nodes = append(s.nodes, e.Node("b"))
		return s
	}
	dynamic := func(e *fixture.Env) string {
		return e.CreateClass(e.Class("dynamic").Provisioner(provisioner)).Name
	}
	run(t, map[string]scenario{
		"a volume for the claim beats one that fits better": {
			given: func(e *fixture.Env) scene {
				return twoNodes(e, e.PVC("data"),
					e.LocalPV("fits-on-a", "a"),
					e.LocalPV("kept-on-b", "b").Capacity("9Gi").ClaimRef(e.Namespace, "data", ""))
			},
			node:    "b",
			volumes: map[string]string{"data": "kept-on-b"},
		},
		"a volume for another claim is not taken": {
			given: func(e *fixture.Env) scene {
				return twoNodes(e, e.PVC("data"),
					e.LocalPV("kept-on-a", "a").ClaimRef(e.Namespace, "other", ""), e.LocalPV("larger-on-b", "b").Capacity("2Gi"))
			},
			node:    "b",
			volumes: map[string]string{"data": "larger-on-b"},
		},
		"a volume for a claim of that name in another namespace is not taken": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data"), e.LocalPV("kept", "a").ClaimRef("default", "data", ""))
			},
			refusal: noVolume,
		},
		"the selector is not evaluated": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").MatchLabel("disk", "ssd"), e.LocalPV("kept", "a").ClaimRef(e.Namespace, "data", ""))
			},
			volumes: map[string]string{"data": "kept"},
		},
		"one of two claims": {
			given: func(e *fixture.Env) scene {
				s := twoNodes(e, e.PVC("data"),
					e.LocalPV("kept-on-b", "b").ClaimRef(e.Namespace, "log", ""),
					e.LocalPV("other-on-b", "b").Capacity("2Gi"), e.LocalPV("on-a", "a"))
				s.claims = append(s.claims, e.PVC("log"))
				return s
			},
			node:    "b",
			volumes: map[string]string{"data": "other-on-b", "log": "kept-on-b"},
		},
		"too small: nothing else is bound instead": {
			given: func(e *fixture.Env) scene {
				return twoNodes(e, e.PVC("data").Request("2Gi"),
					e.LocalPV("kept", "a").ClaimRef(e.Namespace, "data", ""), e.LocalPV("enough", "b").Capacity("2Gi"))
			},
			refusal: reserved,
		},
		"too small: nothing is provisioned instead": {
			given: func(e *fixture.Env) scene {
				class := dynamic(e)
				return twoNodes(e, e.PVC("data").Class(class).Request("2Gi"),
					e.LocalPV("kept", "a").Class(class).ClaimRef(e.Namespace, "data", ""))
			},
			refusal: reserved,
		},
		"lacks the access mode: nothing is provisioned instead": {
			given: func(e *fixture.Env) scene {
				class := dynamic(e)
				return twoNodes(e, e.PVC("data").Class(class).AccessModes(v1.ReadWriteMany),
					e.LocalPV("kept", "a").Class(class).ClaimRef(e.Namespace, "data", ""))
			},
			refusal: reserved,
		},
	})
}

// TestPreboundOnAnotherNode: a pod that cannot be placed on the node of its claim's reserved
// volume gets no volume provisioned elsewhere. The stock plugin takes the volume
// for one that does not match and provisions.
func TestPreboundOnAnotherNode(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	class := e.CreateClass(e.Class("dynamic").Provisioner(provisioner)).Name
	pod := create(e, scene{
		nodes:   []*builders.Node{e.Node("a"), e.Node("b")},
		volumes: []*builders.PV{e.LocalPV("kept", "a").Class(class).ClaimRef(e.Namespace, "data", "")},
		claims:  []*builders.PVC{e.PVC("data").Class(class)},
		pod:     on(e, e.Pod("pod").PVC("data"), "b"),
	})
	e.WaitPod(pod, "refused", func(p *v1.Pod) bool { return containsAny(fixture.Refusal(p), leftOut, reserved, nodeConflict) })
	if node, ok := e.SeenPVC("data").Annotations["volume.kubernetes.io/selected-node"]; ok {
		t.Errorf("a volume will be provisioned on %s", node)
	}
	e.DeletePod(pod)
	e.WaitScheduled(e.CreatePod(e.Pod("pod").PVC("data")), "a")
	wantBindings(e, map[string]string{"data": "kept"})
}

// TestHalfMadeBinding: a claimRef with UID, marked as a controller's, and a
// claim that does not name the volume, are the state after a crash of a scheduler.
func TestHalfMadeBinding(t *testing.T) {
	t.Parallel()
	for _, claims := range [][]string{{"data"}, {"data", "log"}} {
		t.Run(claims[len(claims)-1], func(t *testing.T) {
			t.Parallel()
			fixture.BothModes(t, func(e *fixture.Env) {
				e.AddNodes(e.Node("a"), e.Node("b"))
				pod := e.Pod("pod").PVC(claims...)
				e.CreatePVs(e.LocalPV("other-on-a", "a"), e.LocalPV("on-b-1", "b").Capacity("2Gi"), e.LocalPV("on-b-2", "b"))
				var uid string
				for _, claim := range claims {
					uid = string(e.CreatePVC(e.PVC(claim)).UID)
				}
				half := claims[len(claims)-1]
				e.CreatePVs(e.LocalPV("half", "a").Capacity("5Gi"))
				claimed := e.LocalPV("half", "a").ClaimRef(e.Namespace, half, uid).BoundByController().Obj()
				e.PatchPV("half", map[string]any{
					"metadata": map[string]any{"annotations": claimed.Annotations},
					"spec":     map[string]any{"claimRef": claimed.Spec.ClaimRef},
				})
				e.WaitScheduled(e.CreatePod(pod), "a")
				e.WaitBound(half, "half")
				if len(claims) > 1 {
					e.WaitBound("data", "other-on-a")
				}
				e.NoVolumeTwice()
			})
		})
	}
}

// TestHalfMadeBindingUnseen: while no PV controller has seen a volume,
// a claim that is bound to it would be marked Lost. Direct waits.
func TestHalfMadeBindingUnseen(t *testing.T) {
	t.Parallel()
	e := fixture.NewOn(t, fixture.DefaultConfig())
	e.AddNodes(e.Node("a"))
	if err := e.PVController().Kill(); err != nil {
		t.Fatal(err)
	}
	claim := e.CreatePVC(e.PVC("data"))
	e.CreatePVsUnseen(e.LocalPV("half", "a").ClaimRef(e.Namespace, "data", string(claim.UID)).BoundByController())
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	e.WaitAttempt(e.Shared(), pod, 1)
	if bound := e.SeenPVC("data").Spec.VolumeName; bound != "" {
		t.Fatalf("claim was bound to %s, which no PV controller has seen", bound)
	}
	if err := e.PVController().Start(e.Context()); err != nil {
		t.Fatal(err)
	}
	e.WaitScheduled(pod, "a")
	e.WaitBound("data", "half")
	e.NoVolumeTwice()
}

// TestClaimNamesVolume: the PV controller binds a claim that names its volume,
// whatever its class; the pod waits and follows.
func TestClaimNamesVolume(t *testing.T) {
	t.Parallel()
	t.Run("that exists", func(t *testing.T) {
		t.Parallel()
		scenario{
			given: func(e *fixture.Env) scene {
				return scene{
					nodes:   []*builders.Node{e.Node("a"), e.Node("b")},
					volumes: []*builders.PV{e.LocalPV("a-smaller", "a"), e.LocalPV("named", "b").Capacity("7Gi")},
					claims:  []*builders.PVC{e.PVC("data").VolumeName(e.Name("named"))},
				}
			},
			node:    "b",
			volumes: map[string]string{"data": "named"},
		}.happens(fixture.New(t))
	})
	t.Run("that comes later", func(t *testing.T) {
		t.Parallel()
		e := fixture.New(t)
		pod := create(e, scene{
			nodes:   []*builders.Node{e.Node("a"), e.Node("b")},
			volumes: []*builders.PV{e.LocalPV("other", "a")},
			claims:  []*builders.PVC{e.PVC("data").VolumeName(e.Name("named"))},
		})
		e.WaitUnschedulable(pod, immediate)
		e.CreatePVsUnseen(e.LocalPV("named", "b"))
		e.WaitScheduled(pod, "b")
		wantBindings(e, map[string]string{"data": "named"})
	})
}
