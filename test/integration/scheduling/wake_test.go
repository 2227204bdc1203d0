// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// wake is a pod that waits and an event that it waits for.
type wake struct {
	given func(*fixture.Env) scene
	// event makes the pod fit node a and its claim fit the volume "volume".
	event func(*fixture.Env)
}

// label is a patch that sets one label of any object.
func label(key, value string) any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{key: value}}}
}

func wakes() map[string]wake {
	return map[string]wake{
		"a volume is added": {
			given: func(e *fixture.Env) scene { return oneNode(e, e.PVC("data")) },
			event: func(e *fixture.Env) { e.CreatePVsUnseen(e.LocalPV("volume", "a")) },
		},
		"a larger volume is added": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").Request("2Gi"), e.LocalPV("small", "a"))
			},
			event: func(e *fixture.Env) { e.CreatePVsUnseen(e.LocalPV("volume", "a").Capacity("2Gi")) },
		},
		"a volume for the claim is added": {
			given: func(e *fixture.Env) scene { return oneNode(e, e.PVC("data")) },
			event: func(e *fixture.Env) {
				e.CreatePVsUnseen(e.LocalPV("volume", "a").ClaimRef(e.Namespace, "data", ""))
			},
		},
		"a volume becomes Available": {
			given: func(e *fixture.Env) scene {
				s := oneNode(e, e.PVC("data"))
				e.CreatePVsUnseen(e.LocalPV("volume", "a").ClaimRef(e.Namespace, "gone", "c1a1").BoundByController())
				e.WaitPV("volume", "Released", func(v *v1.PersistentVolume) bool { return v.Status.Phase == v1.VolumeReleased })
				return s
			},
			event: func(e *fixture.Env) {
				e.PatchPV("volume", map[string]any{"spec": map[string]any{"claimRef": nil}})
			},
		},
		"a volume gets the label that the claim selects": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data").MatchLabel("disk", "ssd"), e.LocalPV("volume", "a"))
			},
			event: func(e *fixture.Env) { e.PatchPV("volume", label("disk", "ssd")) },
		},
		"the second of two volumes is added": {
			given: func(e *fixture.Env) scene {
				s := oneNode(e, e.PVC("data"), e.LocalPV("other", "a").Capacity("2Gi"))
				s.claims = append(s.claims, e.PVC("log").Request("2Gi"))
				return s
			},
			event: func(e *fixture.Env) { e.CreatePVsUnseen(e.LocalPV("volume", "a")) },
		},
		"a node is added": {
			given: func(e *fixture.Env) scene {
				s := oneNode(e, e.PVC("data"), e.LocalPV("volume", "a"))
				s.nodes = []*builders.Node{e.Node("b")}
				return s
			},
			event: func(e *fixture.Env) { e.AddNodes(e.Node("a")) },
		},
		"a node is added to a volume's zone": {
			given: func(e *fixture.Env) scene {
				s := oneNode(e, e.PVC("data"), e.PV("volume").Zone(e.Name("z1")))
				s.nodes = []*builders.Node{e.Node("b").Zone(e.Name("z2"))}
				return s
			},
			event: func(e *fixture.Env) { e.AddNodes(e.Node("a").Zone(e.Name("z1"))) },
		},
		"a node gets the label that the volume requires": {
			given: func(e *fixture.Env) scene {
				return oneNode(e, e.PVC("data"), e.PV("volume").Affinity(builders.Term(builders.In("rack", e.Name("r1")))))
			},
			event: func(e *fixture.Env) { e.PatchNode("a", label("rack", e.Name("r1"))) },
		},
		"the claim is added": {
			given: func(e *fixture.Env) scene {
				s := oneNode(e, e.PVC("data"), e.LocalPV("volume", "a"))
				s.pod, s.claims = e.Pod("pod").PVC("data"), nil
				return s
			},
			event: func(e *fixture.Env) { e.CreatePVC(e.PVC("data")) },
		},
		// The volume is provisioned: a free one would be bound at once, as long as there is no class.
		"the class is added": {
			given: func(e *fixture.Env) scene { return oneNode(e, e.PVC("data").Class(e.Name("later"))) },
			event: func(e *fixture.Env) {
				e.CreateClass(e.Class("later").Provisioner("example.com/test"))
				claim := e.WaitPVC("data", "sent to node a", func(c *v1.PersistentVolumeClaim) bool {
					return c.Annotations[plan.AnnSelectedNode] == e.Name("a")
				})
				e.CreatePVsUnseen(e.LocalPV("volume", "a").Class(e.Name("later")).ClaimRef(e.Namespace, "data", string(claim.UID)))
			},
		},
		"a volume reserved for the claim is deleted": {
			given: keptTooSmall,
			event: func(e *fixture.Env) { e.DeletePV("kept") },
		},
		"a volume is no longer reserved for the claim": {
			given: keptTooSmall,
			event: func(e *fixture.Env) { e.PatchPV("kept", map[string]any{"spec": map[string]any{"claimRef": nil}}) },
		},
		"a volume is reserved for another claim instead": {
			given: keptTooSmall,
			event: func(e *fixture.Env) {
				e.PatchPV("kept", map[string]any{"spec": map[string]any{"claimRef": map[string]any{"name": "other"}}})
			},
		},
		"another pod's claim and its volume are deleted": {
			given: func(e *fixture.Env) scene {
				e.AddNodes(e.Node("a"))
				e.CreatePVs(e.LocalPV("volume", "a"))
				e.CreatePVC(e.PVC("first"))
				e.WaitScheduled(e.CreatePod(e.Pod("first").PVC("first")))
				e.WaitBound("first", "volume")
				return scene{claims: []*builders.PVC{e.PVC("data")}}
			},
			event: func(e *fixture.Env) {
				e.DeletePod(e.SeenPod("first"))
				e.DeletePVC("first")
				e.WaitPV("volume", "Released", func(v *v1.PersistentVolume) bool { return v.Status.Phase == v1.VolumeReleased })
				// A provisioner of local volumes does this after a clean.
				e.DeletePV("volume")
				e.CreatePVsUnseen(e.LocalPV("volume", "a"))
			},
		},
	}
}

// keptTooSmall has a volume that fits, and one that is reserved for the claim and does
// not fit: while it is reserved, the claim is bound to no other.
func keptTooSmall(e *fixture.Env) scene {
	kept := e.LocalPV("kept", "a").Capacity("512Mi").ClaimRef(e.Namespace, "data", "")
	return oneNode(e, e.PVC("data").Request("1Gi"), e.LocalPV("volume", "a"), kept)
}

// TestWaitingPodIsWoken: an unschedulable pod is placed by the event
// that makes it schedulable, long before the scheduler would retry it by
// itself, which is after five minutes.
func TestWaitingPodIsWoken(t *testing.T) {
	t.Parallel()
	for name, w := range wakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			pod := create(e, w.given(e))
			e.WaitUnschedulable(pod)
			w.event(e)
			e.WaitScheduled(pod, "a")
			e.WaitBound("data", "volume")
			e.NoVolumeTwice()
		})
	}
}

// TestWokenBeforeCacheUpdate: the queue receives the event and the cache does
// not. No second event requeues the pod. Classes are not in the cache.
func TestWokenBeforeCacheUpdate(t *testing.T) {
	t.Parallel()
	cases := wakes()
	delete(cases, "the class is added")
	for name, w := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			gate := &fixture.Gate{}
			s := e.Start(fixture.SchedulerOptions{Gate: gate})
			e.Use(s.Name())
			pod := create(e, w.given(e))
			e.WaitUnschedulable(pod)
			gate.Hold()
			w.event(e)
			e.WaitScheduled(pod, "a")
			e.WaitBound("data", "volume")
			gate.Release()
			e.NoVolumeTwice()
		})
	}
}

// TestUnsuitableVolumesDoNotRequeue: volumes that cannot help a pod do not cost an
// attempt. The last one helps another pod; when that is placed, the scheduler
// has received the events of all the others, and would have tried the first pod before.
func TestUnsuitableVolumesDoNotRequeue(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.CreateClass(e.Class("other"))
	pod := create(e, oneNode(e, e.PVC("data").Request("2Gi").MatchLabel("disk", "ssd")))
	e.WaitUnschedulable(pod, noVolume)
	e.CreatePVC(e.PVC("canary").Class(e.Name("other")))
	canary := e.CreatePod(e.Pod("canary").PVC("canary"))
	e.WaitUnschedulable(canary, noVolume)
	before := e.Shared().Attempts(pod)

	ssd := func(name string) *builders.PV { return e.LocalPV(name, "a").Capacity("2Gi").Label("disk", "ssd") }
	e.CreatePVs(
		ssd("small").Capacity("1Gi"),
		ssd("unselected").Label("disk", "hdd"),
		ssd("of-no-node").Hostname(e.Name("none")),
		ssd("reads").AccessModes(v1.ReadOnlyMany),
		ssd("kept").ClaimRef("default", "other", ""),
		ssd("block").CSI("csi.example.com", "block").Block(),
	)
	e.CreatePVsUnseen(ssd("helps").Class(e.Name("other")))
	e.WaitScheduled(canary, "a")
	if after := e.Shared().Attempts(pod); after != before {
		t.Errorf("volumes that cannot help the pod led to %d attempts to place it", after-before)
	}
}
