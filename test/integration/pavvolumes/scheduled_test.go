// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

const noSpace = "did not have enough free storage"

// scheduled is a scheduler with VolumeTopology and a provisioner whose volumes have 2Gi, on nodes with
// the given capacities.
func scheduled(t *testing.T, capacities map[string]string) *fixture.Env {
	t.Helper()
	e := fixture.New(t)
	provide(e, sized, corev1.PersistentVolumeReclaimDelete, func(string, helperpod.Step, int) outcome {
		return exit(report.Report{Capacity: new("2Gi")}, 0)
	})
	e.CreateClass(e.Class("late").Provisioner(e.Namespace))
	for node, capacity := range capacities {
		addNode(e, node)
		patchNode(e, node, fmt.Sprintf(`{"metadata":{"labels":{"disk":%q}}}`, capacity))
		capacityIs(e, "late", node, capacity)
	}
	tracks(e, true)
	return e
}

// claimed starts a pod with claims of 2Gi, which it creates.
func claimed(e *fixture.Env, pod string, names ...string) *builders.Pod {
	e.T.Helper()
	b := e.Pod(pod)
	for _, name := range names {
		e.CreatePVC(e.PVC(name).Class(e.Name("late")).Request("2Gi"))
		b = b.PVC(name)
	}
	return b
}

// removePod deletes a pod as kubelet does once its containers have ended.
func removePod(e *fixture.Env, pod *corev1.Pod) {
	e.T.Helper()
	e.Do(func(ctx context.Context) error {
		return e.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	})
}

// The claims of a pod fit its node together, and a pod that fits no node is scheduled as soon as a
// volume is deleted.
func TestScheduledByCapacity(t *testing.T) {
	t.Parallel()
	e := scheduled(t, map[string]string{"a": "5Gi", "b": "3Gi"})
	first := e.CreatePod(claimed(e, "first", "c", "d"))
	e.WaitScheduled(first, "a")
	second := e.CreatePod(claimed(e, "second", "f", "g"))
	e.WaitUnschedulable(second, noSpace)
	third := e.CreatePod(claimed(e, "third", "h"))
	e.WaitScheduled(third, "b")
	capacityIs(e, "late", "a", "1Gi")
	capacityIs(e, "late", "b", "1Gi")

	removePod(e, first)
	e.DeletePVC("c")
	e.DeletePVC("d")
	e.WaitScheduled(second, "a")
	capacityIs(e, "late", "a", "1Gi")
}

// As many pods as there is capacity for are scheduled at once, while the capacity that is published
// changes with each volume: none is placed where its volume does not fit, and none waits for what is
// subtracted twice.
func TestScheduledAtOnce(t *testing.T) {
	t.Parallel()
	e := scheduled(t, map[string]string{"a": "10Gi", "b": "6Gi"})
	var pods []*corev1.Pod
	for i := range 8 {
		name := fmt.Sprintf("p%d", i)
		pods = append(pods, e.CreatePod(claimed(e, name, name)))
	}
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	capacityIs(e, "late", "a", "0")
	capacityIs(e, "late", "b", "0")
	for _, pod := range pods {
		claim := e.SeenPVC(pod.Name)
		volume := seen(e, clients.Volumes, rules.VolumeName(claim.UID), func(*stowage.PavVolume) bool { return true })
		if volume.Spec.NodeName != e.SeenPod(pod.Name).Spec.NodeName || volume.Status.Failures != 0 {
			t.Errorf("the volume of pod %s is on node %s after %d failures, the pod on node %s", pod.Name, volume.Spec.NodeName, volume.Status.Failures, e.SeenPod(pod.Name).Spec.NodeName)
		}
	}
	over := e.CreatePod(claimed(e, "over", "over"))
	e.WaitUnschedulable(over, noSpace)
}

// A pod is evicted for the capacity that its volume has, and only that one.
func TestPreemptionForCapacity(t *testing.T) {
	t.Parallel()
	e := scheduled(t, map[string]string{"a": "2Gi", "b": "1Gi"})
	template := e.PVC("").Class(e.Name("late")).Request("2Gi").Obj()
	victim := e.CreatePod(e.Pod("victim").Ephemeral("scratch", template))
	e.WaitScheduled(victim, "a")
	bystander := e.CreatePod(e.Pod("bystander").NodeSelector(corev1.LabelHostname, "host-of-"+e.Name("b")))
	e.WaitScheduled(bystander, "b")
	important := claimed(e, "important", "c").Obj()
	important.Spec.PriorityClassName = "system-cluster-critical"
	pod := e.CreatePodObject(important)
	e.WaitPod(victim, "evicted", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	removePod(e, victim)
	e.WaitScheduled(pod, "a")
	if seen := e.SeenPod("bystander"); seen == nil || seen.DeletionTimestamp != nil {
		t.Error("a pod was evicted whose volume does not help")
	}
}

// A creation pod that requests another node gets its pod and the volume scheduled again.
func TestScheduledAgain(t *testing.T) {
	t.Parallel()
	e := scheduled(t, map[string]string{"a": "2Gi"})
	programs.Store(e.Namespace, program(func(_ string, step helperpod.Step, number int) outcome {
		if step == helperpod.Creation && number == 1 {
			return exit(report.Report{Error: "the disk has errors", Reschedule: true}, 1)
		}
		return exit(report.Report{Capacity: new("2Gi")}, 0)
	}))
	pod := e.CreatePod(claimed(e, "pod", "c"))
	e.WaitEvent(e.Namespace, "c", string(rules.NodeUnsuitable), "the disk has errors")
	e.WaitScheduled(pod, "a")
	claim := e.SeenPVC("c")
	boundTo(e, claim)
	capacityIs(e, "late", "a", "0")
}
