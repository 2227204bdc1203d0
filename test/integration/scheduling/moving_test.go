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

// nth is true of the n-th request, counted from 1, that is meant.
func nth(n int64, is func(fixture.Request) bool) func(fixture.Request) bool {
	var count atomic.Int64
	return func(r fixture.Request) bool { return is(r) && count.Add(1) == n }
}

// TestMovingInTheMiddle: one scheduler dies in the middle of binding a pod's
// claims; another one of the same name, with the other volume plugin, goes on.
func TestMovingInTheMiddle(t *testing.T) {
	t.Parallel()
	volumeWrite, claimWrite := fixture.Is("update", "persistentvolumes"), fixture.Is("update", "persistentvolumeclaims")
	tests := map[string]struct {
		from, to fixture.Profile
		// at is the write that the first scheduler does not get done any more.
		at func() func(fixture.Request) bool
	}{
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
		"back to VolumeBinding, with both volumes claimed": {
			to: fixture.Profile{Stock: true},
			at: func() func(fixture.Request) bool { return claimWrite },
		},
		"back to VolumeBinding, with one claim bound": {
			to: fixture.Profile{Stock: true},
			at: func() func(fixture.Request) bool { return nth(2, claimWrite) },
		},
		"back to VolumeBinding, from PVController mode": {
			from: fixture.Profile{Args: fixture.PVControllerArgs()},
			to:   fixture.Profile{Stock: true},
			at:   func() func(fixture.Request) bool { return nth(2, volumeWrite) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			test.from.Name, test.to.Name = e.Name("scheduler"), e.Name("scheduler")
			tap := fixture.NewTap()
			first := e.Start(fixture.SchedulerOptions{Tap: tap, Profiles: []fixture.Profile{test.from}})
			held := tap.Hold(test.at())
			e.Use(first.Name())
			pod := create(e, scene{
				nodes: []*builders.Node{e.Node("a"), e.Node("b")},
				volumes: []*builders.PV{
					e.LocalPV("a-1", "a"), e.LocalPV("a-2", "a").Capacity("2Gi"),
					e.LocalPV("b-1", "b"), e.LocalPV("b-2", "b").Capacity("2Gi"),
				},
				claims: []*builders.PVC{e.PVC("small"), e.PVC("large").Request("2Gi")},
			})
			select {
			case <-held.Arrived():
			case <-e.Context().Done():
				t.Fatal(e.Context().Err())
			}
			tap.Cut()
			first.Stop()
			e.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{test.to}})
			node := e.WaitScheduled(pod).Spec.NodeName
			small, large := "a-1", "a-2"
			if node == e.Name("b") {
				small, large = "b-1", "b-2"
			}
			wantBindings(e, map[string]string{"small": small, "large": large})
			e.NoVolumeTwice()
		})
	}
}

// TestMovingUnderLoad: the plugin is changed while pods come in, there and
// back. Every pod is placed, no volume is given twice.
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
