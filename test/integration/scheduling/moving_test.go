// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// nth is true of the n-th selected request, counted from 1.
func nth(n int64, is func(fixture.Request) bool) func(fixture.Request) bool {
	var count atomic.Int64
	return func(r fixture.Request) bool { return is(r) && count.Add(1) == n }
}

// move replaces a scheduler that is killed while it binds a pod's claims by another one of the
// same name, with the other volume plugin, which completes the binding.
type move struct {
	from, to fixture.Profile
	// at is the first write that the first scheduler cannot complete.
	at func() func(fixture.Request) bool
}

var volumeWrite, claimWrite = fixture.Is("update", "persistentvolumes"), fixture.Is("update", "persistentvolumeclaims")

// prepare creates the objects that the pod needs.
func (m *move) prepare(e *fixture.Env) {
	m.from.Name, m.to.Name = e.Name("scheduler"), e.Name("scheduler")
	e.AddNodes(e.Node("a"), e.Node("b"))
	e.CreatePVs(
		e.LocalPV("a-1", "a"), e.LocalPV("a-2", "a").Capacity("2Gi"),
		e.LocalPV("b-1", "b"), e.LocalPV("b-2", "b").Capacity("2Gi"),
	)
}

// leave kills the first scheduler while the pod's claims are half bound.
func (m *move) leave(e *fixture.Env) *v1.Pod {
	e.T.Helper()
	tap := fixture.NewTap()
	first := e.Start(fixture.SchedulerOptions{Tap: tap, Profiles: []fixture.Profile{m.from}})
	held := tap.Hold(m.at())
	e.Use(first.Name())
	pod := create(e, scene{claims: []*builders.PVC{e.PVC("small"), e.PVC("large").Request("2Gi")}})
	e.WaitHeld(held)
	tap.Cut()
	first.Stop()
	return pod
}

// arrive starts the second scheduler.
func (m *move) arrive(e *fixture.Env, pod *v1.Pod) {
	e.T.Helper()
	e.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{m.to}})
	node := e.WaitScheduled(pod).Spec.NodeName
	small, large := "a-1", "a-2"
	if node == e.Name("b") {
		small, large = "b-1", "b-2"
	}
	wantBindings(e, map[string]string{"small": small, "large": large})
	e.NoVolumeTwice()
}

// TestMovingInTheMiddle: before or after the claimRefs are written.
func TestMovingInTheMiddle(t *testing.T) {
	t.Parallel()
	moves := map[string]move{
		"from VolumeBinding, before its first write": {
			from: fixture.Profile{Stock: true},
			at:   func() func(fixture.Request) bool { return nth(1, volumeWrite) },
		},
		"from VolumeBinding, between its two writes": {
			from: fixture.Profile{Stock: true},
			at:   func() func(fixture.Request) bool { return nth(2, volumeWrite) },
		},
		"from VolumeBinding, between its two writes, to PVController mode": {
			from: fixture.Profile{Stock: true},
			to:   fixture.Profile{Args: fixture.PVControllerArgs()},
			at:   func() func(fixture.Request) bool { return nth(2, volumeWrite) },
		},
		"back to VolumeBinding, with one volume claimed": {
			to: fixture.Profile{Stock: true},
			at: func() func(fixture.Request) bool { return nth(2, volumeWrite) },
		},
		"back to VolumeBinding, from PVController mode": {
			from: fixture.Profile{Args: fixture.PVControllerArgs()},
			to:   fixture.Profile{Stock: true},
			at:   func() func(fixture.Request) bool { return nth(2, volumeWrite) },
		},
	}
	for name, m := range moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			m.prepare(e)
			m.arrive(e, m.leave(e))
		})
	}
}

// TestMovingWhileClaimsAreBound: the PersistentVolume controller, which binds a claim
// as soon as it sees its volume claimed, is down until the first scheduler has ended.
func TestMovingWhileClaimsAreBound(t *testing.T) {
	t.Parallel()
	moves := map[string]move{
		"with both volumes claimed": {
			to: fixture.Profile{Stock: true},
			at: func() func(fixture.Request) bool { return claimWrite },
		},
		"with one claim bound": {
			to: fixture.Profile{Stock: true},
			at: func() func(fixture.Request) bool { return nth(2, claimWrite) },
		},
	}
	parent := fixture.NewOn(t, fixture.DefaultConfig())
	controller := parent.PVController()
	for name, m := range moves {
		t.Run(name, func(t *testing.T) {
			e := parent.Sibling(t)
			m.prepare(e)
			if err := controller.Kill(); err != nil {
				t.Fatal(err)
			}
			pod := m.leave(e)
			if err := controller.Start(e.Context()); err != nil {
				t.Fatal(err)
			}
			m.arrive(e, pod)
		})
	}
}

// TestMovingUnderLoad: the plugin is changed and changed back while pods are created. Every
// pod is placed, no volume is bound twice.
func TestMovingUnderLoad(t *testing.T) {
	t.Parallel()
	const nodes, perNode, perScheduler = 5, 6, 10
	e := fixture.New(t)
	for n := range nodes {
		node := fmt.Sprintf("node-%d", n)
		e.AddNodes(e.Node(node))
		var volumes []*builders.PV
		for v := range perNode {
			volumes = append(volumes, e.LocalPV(fmt.Sprintf("volume-%d-%d", n, v), node))
		}
		e.CreatePVs(volumes...)
	}
	name := e.Name("scheduler")
	e.Use(name)
	var pods []*v1.Pod
	for i, profile := range []fixture.Profile{{Stock: true}, {}, {Stock: true}} {
		profile.Name = name
		s := e.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{profile}, MaxBackoffSeconds: 1})
		for j := range perScheduler {
			claim := fmt.Sprintf("claim-%d-%d", i, j)
			e.CreatePVC(e.PVC(claim))
			pods = append(pods, e.CreatePod(e.Pod(fmt.Sprintf("pod-%d-%d", i, j)).PVC(claim)))
		}
		if i < 2 {
			// In the midst of it.
			e.WaitScheduled(pods[i*perScheduler+perScheduler/3])
			s.Stop()
		}
	}
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	for claim := range e.Bindings() {
		e.WaitBound(claim, "")
	}
	e.NoVolumeTwice()
	if bound := len(e.Bindings()); bound != len(pods) {
		t.Errorf("%d claims have volumes, want %d", bound, len(pods))
	}
}
