// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestPreemptedWhileBinding: a pod that waits for its provisioner is preempted.
// The scheduler cancels its binding and requeues it. What the
// provisioner may have begun stays: the node that was selected, and the bytes
// held there until the claim is deleted.
func TestPreemptedWhileBinding(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, profile fixture.Profile) {
		e := fixture.New(t)
		s := e.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{profile}, MaxBackoffSeconds: 1})
		e.Use(s.Name())
		addSlowStorage(e)
		e.CreatePVC(e.PVC("static"))
		e.CreatePVC(e.PVC("dynamic").Class(e.Name("slow")).Request("60Gi"))
		e.CreatePVC(e.PVC("rival").Class(e.Name("slow")).Request("60Gi"))

		low := e.CreatePod(e.Pod("low").PVC("static", "dynamic").Requests("20", "1Gi"))
		e.WaitPVC("dynamic", "sent to its node", beingMade)
		high := important(e, e.Pod("high").Requests("20", "1Gi"))
		e.WaitScheduled(high, "a")
		if seen := e.SeenPod("low"); seen == nil || seen.UID != low.UID || seen.DeletionTimestamp != nil {
			// The scheduler deletes the pod if it searches for victims again while
			// the canceled binding is still being undone.
			t.Log("the preempted pod was deleted")
			e.DeletePod(low)
			low = e.CreatePod(e.Pod("low").PVC("static", "dynamic").Requests("20", "1Gi"))
		}
		e.WaitUnschedulable(low, "Insufficient cpu")
		e.WaitPVC("dynamic", "left to its provisioner", beingMade)

		rival := e.CreatePod(e.Pod("rival").PVC("rival"))
		e.WaitUnschedulable(rival, "did not have enough free storage")

		// The static claim is unchanged, or bound by the PV controller.
		controllerHasSeenAll(e, "meanwhile")
		wantConsistent(e)

		claim := e.SeenPVC("dynamic")
		e.CreatePVs(e.LocalPV("made", "a").Capacity("60Gi").Class(e.Name("slow")).ProvisionedBy(silent).
			ClaimRef(e.Namespace, claim.Name, string(claim.UID)))
		e.DeletePod(high)
		wantSettled(e, low)
	})
}

// TestPreemptedAndDeleted: a pod is preempted while it waits for its
// provisioner and then deleted with its claims. Volume and capacity are free
// for others.
func TestPreemptedAndDeleted(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, profile fixture.Profile) {
		s := &scenario{Env: fixture.New(t), profile: profile}
		scheduler, _ := s.start()
		addSlowStorage(s.Env)
		s.CreatePVC(s.PVC("static"))
		s.CreatePVC(s.PVC("dynamic").Class(s.Name("slow")).Request("60Gi"))
		low := s.CreatePod(s.Pod("low").PVC("static", "dynamic").Requests("20", "1Gi"))
		s.WaitPVC("dynamic", "sent to its node", beingMade)
		s.WaitScheduled(important(s.Env, s.Pod("high").Requests("20", "1Gi")), "a")
		s.DeletePod(low)
		for _, claim := range []string{"static", "dynamic"} {
			s.DeletePVC(claim)
			s.Wait("claim "+claim+" to be deleted", func() bool { return s.SeenPVC(claim) == nil })
		}
		s.wantFree("existing")

		s.CreatePVC(s.PVC("next-static"))
		s.CreatePVC(s.PVC("next-dynamic").Class(s.Name("slow")).Request("60Gi"))
		next := s.CreatePod(s.Pod("next").PVC("next-static", "next-dynamic"))
		claim := s.WaitPVC("next-dynamic", "sent to its node", beingMade)
		s.CreatePVs(s.LocalPV("made", "a").Capacity("60Gi").Class(s.Name("slow")).ProvisionedBy(silent).
			ClaimRef(s.Namespace, claim.Name, string(claim.UID)))
		wantSettled(s.Env, next)
		if err := scheduler.Cache().Check(); err != nil {
			t.Error(err)
		}
	})
}

// beingMade reports whether a provisioner may work on the claim.
func beingMade(claim *v1.PersistentVolumeClaim) bool {
	return claim.Annotations[plan.AnnSelectedNode] != "" && claim.Annotations[plan.AnnStorageProvisioner] != ""
}

// addSlowStorage creates one node with one volume, and a class with a capacity of
// 100Gi there.
func addSlowStorage(e *fixture.Env) {
	e.T.Helper()
	e.AddNodes(e.Node("a"))
	e.CreatePVs(e.LocalPV("existing", "a"))
	driver := e.Name("driver")
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	object := builders.MakeCSIDriver(driver).StorageCapacity(true).Obj()
	object.Labels = e.NodeSelector()
	if _, err := e.Client.StorageV1().CSIDrivers().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		e.T.Fatal(err)
	}
	class := e.CreateClass(e.Class("slow").Provisioner(driver)).Name
	capacity := builders.MakeCapacity("capacity", class).Namespace(e.Namespace).Hostname(e.Name("a")).Capacity("100Gi").Obj()
	if _, err := e.Client.StorageV1().CSIStorageCapacities(e.Namespace).Create(ctx, capacity, metav1.CreateOptions{}); err != nil {
		e.T.Fatal(err)
	}
}

// important creates a pod that may preempt others.
func important(e *fixture.Env, pod *builders.Pod) *v1.Pod {
	e.T.Helper()
	object := pod.Obj()
	object.Spec.PriorityClassName = "system-cluster-critical" // every cluster has it
	return e.CreatePodObject(object)
}
