// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestStorageCapacity: where volumes of a driver that publishes its capacity may be
// provisioned. The nodes are a and b.
func TestStorageCapacity(t *testing.T) {
	t.Parallel()
	sizes := func(list ...string) func(*fixture.Env) []*builders.PVC {
		return func(e *fixture.Env) (claims []*builders.PVC) {
			for i, size := range list {
				claims = append(claims, made(e, string(rune('c'+i)), size))
			}
			return claims
		}
	}
	tests := map[string]struct {
		untracked bool
		capacity  func(*fixture.Env) []*builders.Capacity
		claims    func(*fixture.Env) []*builders.PVC
		node      string // "": any
		refused   bool
	}{
		"the claims of a pod together": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "a", "a").Capacity("100Gi"), nodeCapacity(e, "b", "b").Capacity("120Gi")}
			},
			claims: sizes("60Gi", "60Gi"),
			node:   "b",
		},
		"each of three claims fits, all of them do not": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "a", "a").Capacity("100Gi"), nodeCapacity(e, "b", "b").Capacity("89Gi")}
			},
			claims:  sizes("30Gi", "70Gi", "1Gi"),
			refused: true,
		},
		"only the maximum size of volumes is published: it bounds each, and no sum": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "a", "a").Max("60Gi"), nodeCapacity(e, "b", "b").Capacity("500Gi").Max("50Gi")}
			},
			claims: sizes("60Gi", "60Gi"),
			node:   "a",
		},
		"only the maximum size of volumes is published, on all nodes": { // which ends the stock scheduler
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "a", "a").Max("60Gi"), nodeCapacity(e, "b", "b").Max("60Gi")}
			},
			claims: sizes("60Gi"),
		},
		"only the maximum size of volumes is published, and it is too small": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "a", "a").Max("59Gi"), nodeCapacity(e, "b", "b").Max("59Gi")}
			},
			claims:  sizes("60Gi"),
			refused: true,
		},
		"a node without capacity": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "a", "a").Capacity("100Gi")}
			},
			claims: sizes("60Gi"),
			node:   "a",
		},
		"no node has capacity": {
			capacity: func(*fixture.Env) []*builders.Capacity { return nil },
			claims:   sizes("1Gi"),
			refused:  true,
		},
		"an object without capacity": {
			capacity: func(e *fixture.Env) []*builders.Capacity { return []*builders.Capacity{nodeCapacity(e, "a", "a")} },
			claims:   sizes("1Gi"),
			refused:  true,
		},
		"the node with the largest of several objects": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{
					nodeCapacity(e, "a1", "a").Capacity("40Gi"), shared(e, "a2", "a", "x").Capacity("70Gi"), shared(e, "a3", "a", "y").Capacity("50Gi"),
					nodeCapacity(e, "b1", "b").Capacity("55Gi"), shared(e, "b2", "b", "x").Capacity("59Gi"),
				}
			},
			claims: sizes("60Gi"),
			node:   "a",
		},
		"several, one for each claim": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{
					nodeCapacity(e, "a1", "a").Capacity("60Gi"), shared(e, "a2", "a", "x").Capacity("70Gi"), nodeCapacity(e, "b", "b").Capacity("110Gi"),
				}
			},
			claims: sizes("60Gi", "60Gi"),
			node:   "a",
		},
		"published twice": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "a1", "a").Capacity("70Gi"), nodeCapacity(e, "a2", "a").Capacity("70Gi")}
			},
			claims:  sizes("60Gi", "60Gi"),
			refused: true,
		},
		"of another class": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "a", "a").Class(e.Name("local")).Capacity("100Gi"), nodeCapacity(e, "b", "b").Capacity("60Gi")}
			},
			claims: sizes("60Gi"),
			node:   "b",
		},
		"reachable from nowhere": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "nowhere", "").Topology(nil).Capacity("100Gi")}
			},
			claims:  sizes("60Gi"),
			refused: true,
		},
		"reachable from everywhere": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "everywhere", "").Topology(&metav1.LabelSelector{}).Capacity("100Gi")}
			},
			claims: sizes("60Gi"),
		},
		"a driver that does not publish its capacity": {
			untracked: true,
			capacity:  func(*fixture.Env) []*builders.Capacity { return nil },
			claims:    sizes("60Gi"),
		},
		"the class by the beta annotation alone": { // which ends the stock scheduler
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "a", "a").Capacity("100Gi"), nodeCapacity(e, "b", "b").Capacity("100Gi")}
			},
			claims: func(e *fixture.Env) []*builders.PVC {
				return []*builders.PVC{builders.MakePVC("c").Namespace(e.Namespace).BetaClass(e.Name("made"))}
			},
		},
		"the class by the beta annotation alone, and too little capacity": {
			capacity: func(e *fixture.Env) []*builders.Capacity {
				return []*builders.Capacity{nodeCapacity(e, "a", "a").Capacity("1Mi")}
			},
			claims: func(e *fixture.Env) []*builders.PVC {
				return []*builders.PVC{builders.MakePVC("c").Namespace(e.Namespace).BetaClass(e.Name("made"))}
			},
			refused: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			e.AddNodes(e.Node("a"), e.Node("b"))
			createClass(e)
			trackCapacity(e, !test.untracked)
			publish(e, test.capacity(e)...)
			startProvisioner(e, nil)
			b := e.Pod("pod")
			for _, claim := range test.claims(e) {
				b.PVC(e.CreatePVC(claim).Name)
			}
			pod := e.CreatePod(b)
			switch {
			case test.refused:
				e.WaitUnschedulable(pod, noSpace)
			case test.node != "":
				e.WaitScheduled(pod, test.node)
			default:
				e.WaitScheduled(pod)
			}
			e.NoVolumeTwice()
		})
	}
}

// TestCapacityInFlight: capacity that is being provisioned is held until the driver's
// CSIStorageCapacity shows it.
func TestCapacityInFlight(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a"))
		createClass(e)
		trackCapacity(e, true)
		publish(e, nodeCapacity(e, "a", "a").Capacity("100Gi"))
		g := newGate(e)
		startProvisioner(e, g.pass)

		e.CreatePVC(made(e, "first", "60Gi"))
		first := e.CreatePod(e.Pod("first").PVC("first"))
		g.wait(e, "first")
		e.CreatePVC(made(e, "second", "60Gi"))
		second := e.CreatePod(e.Pod("second").PVC("second"))
		e.WaitUnschedulable(second, noSpace)

		// The first volume is not in the new figure, either.
		publish(e, nodeCapacity(e, "a", "a").Capacity("125Gi"))
		g.wait(e, "second")
		e.CreatePVC(made(e, "third", "6Gi"))
		third := e.CreatePod(e.Pod("third").PVC("third"))
		e.WaitUnschedulable(third, noSpace)

		close(g.open)
		for _, claim := range []string{"first", "second"} {
			e.WaitBound(claim, "pvc-"+claim)
		}
		e.WaitScheduled(first, "a")
		e.WaitScheduled(second, "a")
		// Both volumes are in this figure, and no capacity is held.
		publish(e, nodeCapacity(e, "a", "a").Capacity("6Gi"))
		e.WaitScheduled(third, "a")
		e.NoVolumeTwice()
	})
}

// TestCapacityOfFailedPod: a pod that is deleted before its volumes are provisioned
// releases the capacity, and requeues the one that waits for it.
func TestCapacityOfFailedPod(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a"))
	createClass(e)
	trackCapacity(e, true)
	publish(e, nodeCapacity(e, "a", "a").Capacity("100Gi"))
	startProvisioner(e, nil)
	tap := fixture.NewTap()
	s := e.Start(fixture.SchedulerOptions{Tap: tap})
	e.Use(s.Name())
	held := tap.Hold(fixture.Is("update", "persistentvolumeclaims"))
	e.CreatePVC(made(e, "first", "60Gi"))
	first := e.CreatePod(e.Pod("first").PVC("first"))
	e.WaitHeld(held) // which selects the node for the first claim
	e.CreatePVC(made(e, "second", "60Gi"))
	second := e.CreatePod(e.Pod("second").PVC("second"))
	e.WaitUnschedulable(second, noSpace)
	// The write of the first pod's selected node fails permanently.
	e.DeletePVC("first")
	e.DeletePod(first)
	e.Wait("the first claim to be deleted", func() bool { return e.SeenPVC("first") == nil })
	held.Release()
	e.WaitScheduled(second, "a")
}

// TestCapacityWakes: what happens to a pod for which there is not enough capacity.
func TestCapacityWakes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before func(*fixture.Env)
		event  func(*fixture.Env)
	}{
		"capacity is published": {
			event: func(e *fixture.Env) { publish(e, nodeCapacity(e, "a", "a").Capacity("60Gi")) },
		},
		"capacity grows": {
			before: func(e *fixture.Env) { publish(e, nodeCapacity(e, "a", "a").Capacity("59Gi")) },
			event:  func(e *fixture.Env) { publish(e, nodeCapacity(e, "a", "a").Capacity("60Gi")) },
		},
		"larger volumes can be made": {
			before: func(e *fixture.Env) { publish(e, nodeCapacity(e, "a", "a").Capacity("500Gi").Max("59Gi")) },
			event:  func(e *fixture.Env) { publish(e, nodeCapacity(e, "a", "a").Capacity("500Gi").Max("60Gi")) },
		},
		"capacity no longer counts": {
			event: func(e *fixture.Env) { trackCapacity(e, false) },
		},
		"the driver's object is deleted": {
			event: func(e *fixture.Env) {
				ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
				defer cancel()
				if err := e.Client.StorageV1().CSIDrivers().Delete(ctx, driver(e), metav1.DeleteOptions{}); err != nil {
					e.T.Fatal(err)
				}
			},
		},
		"a node with capacity comes": {
			before: func(e *fixture.Env) { publish(e, nodeCapacity(e, "b", "b").Capacity("60Gi")) },
			event:  func(e *fixture.Env) { e.AddNodes(e.Node("b")) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			e.AddNodes(e.Node("a"))
			createClass(e)
			trackCapacity(e, true)
			if test.before != nil {
				test.before(e)
			}
			startProvisioner(e, nil)
			e.CreatePVC(made(e, "data", "60Gi"))
			pod := e.CreatePod(e.Pod("pod").PVC("data"))
			e.WaitUnschedulable(pod, noSpace)
			test.event(e)
			e.WaitScheduled(pod)
			e.WaitBound("data", "pvc-data")
		})
	}
}

// TestCapacityWakesBeforeCacheUpdate: the queue receives the capacity's event and
// the scheduling cache does not.
func TestCapacityWakesBeforeCacheUpdate(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"published": "", "grown": "59Gi"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			gate := &fixture.Gate{}
			s := e.Start(fixture.SchedulerOptions{Gate: gate})
			e.Use(s.Name())
			e.AddNodes(e.Node("a"))
			createClass(e)
			trackCapacity(e, true)
			if before != "" {
				publish(e, nodeCapacity(e, "a", "a").Capacity(before))
			}
			startProvisioner(e, nil)
			e.CreatePVC(made(e, "data", "60Gi"))
			pod := e.CreatePod(e.Pod("pod").PVC("data"))
			e.WaitUnschedulable(pod, noSpace)
			gate.Hold()
			defer gate.Release()
			publish(e, nodeCapacity(e, "a", "a").Capacity("60Gi"))
			e.WaitPVC("data", "sent to node a", selects(e, "a"))
			gate.Release() // the provisioned volume is waited for by its events
			e.WaitScheduled(pod, "a")
		})
	}
}

// TestCapacityOutlivesScheduler: a scheduler is stopped while a volume is being
// made and the pod that it was for is deleted. The next scheduler holds the
// bytes that the volume will use.
func TestCapacityOutlivesScheduler(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a"))
	createClass(e)
	trackCapacity(e, true)
	publish(e, nodeCapacity(e, "a", "a").Capacity("100Gi"))
	g := newGate(e)
	startProvisioner(e, g.pass)
	profile := fixture.Profile{Name: e.Name("scheduler")}

	s := e.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{profile}})
	e.Use(s.Name())
	e.CreatePVC(made(e, "first", "60Gi"))
	first := e.CreatePod(e.Pod("first").PVC("first"))
	g.wait(e, "first")
	s.Stop()
	e.DeletePod(first)

	e.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{profile}})
	e.CreatePVC(made(e, "second", "60Gi"))
	second := e.CreatePod(e.Pod("second").PVC("second"))
	e.WaitUnschedulable(second, noSpace)
	if node := e.SeenPVC("second").Annotations[plan.AnnSelectedNode]; node != "" {
		t.Errorf("the second claim is sent to node %s, where the first takes the capacity", node)
	}
	close(g.open)
	e.WaitPV("pvc-first", "made", anyVolume)
	publish(e, nodeCapacity(e, "a", "a").Capacity("60Gi"))
	e.WaitScheduled(second, "a")
}
