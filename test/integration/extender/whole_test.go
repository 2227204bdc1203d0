// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/integration/fixture"
)

// TestWholeNodes: with nodeCacheCapable: false the scheduler sends nodes, and not their
// names. The answers are the same.
func TestWholeNodes(t *testing.T) {
	t.Parallel()
	e := whole(fixture.New(t))
	e.AddNodes(e.Node("a"), e.Node("b"), e.Node("c"))
	e.CreatePVs(
		e.LocalPV("large", "a").Capacity("100Gi"), e.LocalPV("larger", "a").Capacity("100Gi").Label("disk", "ssd"),
		e.LocalPV("fits", "b").Capacity("10Gi").Label("disk", "ssd"), e.LocalPV("small", "b").Capacity("5Gi"),
	)
	e.CreatePVC(e.PVC("huge").Request("1Ti"))
	e.WaitUnschedulable(e.CreatePod(e.Pod("refused").PVC("huge")), noVolume)
	e.CreatePVC(e.PVC("any").Request("5Gi"))
	e.CreatePVC(e.PVC("fast").Request("5Gi").MatchLabel("disk", "ssd"))
	e.WaitScheduled(e.CreatePod(e.Pod("pod").PVC("any", "fast")), "b")
	e.WaitBound("any", "small")
	e.WaitBound("fast", "fits")
	e.NoVolumeTwice()
}

// TestPreemption: a pod of higher priority finds nodes full. Victims are only evicted where its
// claims fit afterwards.
func TestPreemption(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*fixture.Env) *fixture.Env{"victims by identity": full, "whole victims": whole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := use(fixture.New(t))
			e.AddNodes(e.Node("a"), e.Node("b"))
			e.CreatePVs(e.LocalPV("v", "b"))
			for _, node := range []string{"a", "b"} {
				low := e.CreatePod(e.Pod("on-"+node).NodeSelector(v1.LabelHostname, e.Name(node)).Requests("20", "1Gi"))
				e.WaitScheduled(low, node)
			}
			stays := func(name string) {
				t.Helper()
				if pod := e.SeenPod(name); pod == nil || pod.DeletionTimestamp != nil {
					t.Errorf("pod %s was evicted\n%s", name, e.Dump())
				}
			}
			// Nodes with capacity, where only the volume is missing: no eviction helps.
			e.CreatePVC(e.PVC("large").Request("1Ti"))
			e.WaitUnschedulable(e.CreatePodObject(important(e, "small", "1", "large")), noVolume, "Preemption is not helpful for scheduling")
			// Full nodes: evictions would free CPU, but no volume.
			e.WaitUnschedulable(e.CreatePodObject(important(e, "in-vain", "20", "large")), "Insufficient cpu")
			stays("on-a")
			stays("on-b")

			e.CreatePVC(e.PVC("data"))
			e.WaitScheduled(e.CreatePodObject(important(e, "pod", "20", "data")), "b")
			e.WaitBound("data", "v")
			stays("on-a")
			e.Wait("the victim to go", func() bool { return e.SeenPod("on-b") == nil })
		})
	}
}

// important makes a pod of high priority with a claim, for CreatePod.
func important(e *fixture.Env, name, cpu, claim string) *v1.Pod {
	pod := e.Pod(name).Requests(cpu, "1Gi").PVC(claim).Obj()
	pod.Spec.PriorityClassName = "system-cluster-critical" // every cluster has it
	return pod
}
