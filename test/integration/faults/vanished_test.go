// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/integration/fixture"
)

// scenario is a test in one Env, in up to three parts: before the PV
// controller stops, while it is stopped and afterwards. On a cluster whose
// PV controller always runs, alone is false and the parts follow each
// other at once. Then the PV controller may have completed bindings that the binder
// was about to undo.
type scenario struct {
	*fixture.Env
	profile               fixture.Profile
	alone                 bool
	scheduler             *fixture.Scheduler
	before, during, after func()
}

// vanishing are the tests of objects that are deleted after the scheduler has
// chosen a volume and before its first write reaches the API server.
var vanishing = map[string]func(*scenario){
	"node deleted":  nodeDeleted,
	"PV deleted":    volumeDeleted,
	"claim deleted": claimDeleted,
	"pod deleted":   podDeleted,
}

func TestObjectDeletedBetweenReserveAndBind(t *testing.T) {
	t.Parallel()
	runAll(t, vanishing)
}

// start runs the test's own scheduler, instead of the previous one. It
// pauses between two attempts: writes of two immediate attempts into a pod's status
// are unordered.
func (s *scenario) start() (*fixture.Scheduler, *fixture.Tap) {
	s.T.Helper()
	if s.scheduler != nil {
		s.scheduler.Stop()
	}
	tap := fixture.NewTap()
	s.profile.Name = s.Name("scheduler")
	s.scheduler = s.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{s.profile}, Tap: tap, MaxBackoffSeconds: 1})
	s.Use(s.scheduler.Name())
	return s.scheduler, tap
}

// runAll runs tests beside a PV controller, with each binding mode.
func runAll(t *testing.T, scenarios map[string]func(*scenario)) {
	t.Helper()
	bothModes(t, func(t *testing.T, profile fixture.Profile) {
		for name, run := range scenarios {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := &scenario{Env: fixture.New(t), profile: profile}
				run(s)
				s.before()
				s.during()
				s.after()
			})
		}
	})
}

// wantFree waits until the volume can be bound again. A PV controller may have released it as
// that of a deleted claim; its claimRef is then removed, as an administrator does.
func (s *scenario) wantFree(volume string) {
	s.T.Helper()
	free := func(v *v1.PersistentVolume) bool {
		return v.Spec.ClaimRef == nil && v.Status.Phase == v1.VolumeAvailable
	}
	if s.alone {
		s.WaitPV(volume, "free", free)
		return
	}
	seen := s.WaitPV(volume, "free or Released", func(v *v1.PersistentVolume) bool {
		return free(v) || v.Status.Phase == v1.VolumeReleased
	})
	if seen.Status.Phase == v1.VolumeReleased {
		s.PatchPV(volume, map[string]any{"spec": map[string]any{"claimRef": nil}})
		s.WaitPV(volume, "Available", func(v *v1.PersistentVolume) bool { return v.Status.Phase == v1.VolumeAvailable })
	}
}

func nodeDeleted(s *scenario) {
	s.before = func() {
		s.AddNodes(s.Node("a"), s.Node("b"))
		s.CreatePVs(
			s.LocalPV("on-a-1", "a").Capacity("1Gi"), s.LocalPV("on-a-2", "a").Capacity("2Gi"),
			s.LocalPV("on-b-1", "b").Capacity("3Gi"), s.LocalPV("on-b-2", "b").Capacity("4Gi"))
		s.CreatePVC(s.PVC("one").Request("1Gi"))
		s.CreatePVC(s.PVC("two").Request("2Gi"))
		s.CreatePVC(s.PVC("other-one").Request("1Gi"))
		s.CreatePVC(s.PVC("other-two").Request("2Gi"))
	}
	s.during = func() {
		scheduler, tap := s.start()
		held := tap.Hold(volumeWrite)
		pod := s.CreatePod(s.Pod("pod").PVC("one", "two"))
		s.WaitHeld(held)
		if err := s.Client.CoreV1().Nodes().Delete(s.Context(), s.Name("a"), metav1.DeleteOptions{}); err != nil {
			s.T.Fatal(err)
		}
		nodes := scheduler.Informers.Core().V1().Nodes()
		hasSeen(s.Env, nodes.Informer(), "the node's deletion", func() bool {
			_, err := nodes.Lister().Get(s.Name("a"))
			return apierrors.IsNotFound(err)
		})
		held.Release()
		if s.alone {
			s.WaitScheduled(pod, "b")
			s.wantFree("on-a-1")
			s.wantFree("on-a-2")
		}
		// The other two volumes serve the next pod, wherever the first
		// was placed: a PV controller may have bound it to the deleted node.
		s.AddNodes(s.Node("a"))
		other := s.CreatePod(s.Pod("other").PVC("other-one", "other-two"))
		wantSettled(s.Env, pod, other)
		wantNothingReserved(s.Env, scheduler)
	}
	s.after = func() { wantConsistent(s.Env) }
}

func volumeDeleted(s *scenario) {
	s.before = func() {
		s.AddNodes(s.Node("a"))
		s.CreatePVs(s.LocalPV("best", "a").Capacity("1Gi"), s.LocalPV("next", "a").Capacity("2Gi"))
		s.CreatePVC(s.PVC("data"))
	}
	var pod *v1.Pod
	s.during = func() {
		scheduler, tap := s.start()
		held := tap.Hold(volumeWrite)
		pod = s.CreatePod(s.Pod("pod").PVC("data"))
		s.WaitHeld(held)
		if err := s.Client.CoreV1().PersistentVolumes().Delete(s.Context(), s.Name("best"), metav1.DeleteOptions{}); err != nil {
			s.T.Fatal(err)
		}
		if !s.alone { // no controller removes its finalizer
			s.Wait("the volume to be deleted", func() bool { return s.SeenPV("best") == nil })
		}
		held.Release()
		s.WaitBound("data", "next")
		wantSettled(s.Env, pod)
		wantNothingReserved(s.Env, scheduler)
	}
	s.after = func() {
		s.Wait("the volume to be deleted", func() bool { return s.SeenPV("best") == nil })
		s.start()
		s.CreatePVs(s.LocalPV("best", "a").Capacity("1Gi"))
		s.CreatePVC(s.PVC("other"))
		other := s.CreatePod(s.Pod("other").PVC("other"))
		s.WaitBound("other", "best")
		wantSettled(s.Env, pod, other)
	}
}

func claimDeleted(s *scenario) {
	s.before = func() {
		s.AddNodes(s.Node("a"))
		s.CreatePVs(s.LocalPV("only", "a"))
		s.CreatePVC(s.PVC("data"))
		s.CreatePVC(s.PVC("other"))
	}
	var pod, other *v1.Pod
	s.during = func() {
		scheduler, tap := s.start()
		held := tap.Hold(volumeWrite)
		pod = s.CreatePod(s.Pod("pod").PVC("data"))
		s.WaitHeld(held)
		s.DeletePVC("data")
		claims := scheduler.Informers.Core().V1().PersistentVolumeClaims()
		hasSeen(s.Env, claims.Informer(), "the claim's deletion", func() bool {
			claim, err := claims.Lister().PersistentVolumeClaims(s.Namespace).Get("data")
			// Without controllers it keeps its finalizer. Beside them it must be
			// deleted: the PV controller binds a claim that is being deleted.
			return apierrors.IsNotFound(err) || s.alone && err == nil && claim.DeletionTimestamp != nil
		})
		held.Release()
		s.WaitUnschedulable(pod, `persistentvolumeclaim "data"`)
		wantNothingReserved(s.Env, scheduler)
		s.wantFree("only")
		other = s.CreatePod(s.Pod("other").PVC("other"))
		s.WaitBound("other", "only")
		wantSettled(s.Env, other)
	}
	s.after = func() {
		s.Wait("the claim to be deleted", func() bool { return s.SeenPVC("data") == nil })
		s.start()
		s.CreatePVs(s.LocalPV("another", "a"))
		s.CreatePVC(s.PVC("data"))
		wantSettled(s.Env, pod, other)
	}
}

func podDeleted(s *scenario) {
	s.before = func() {
		s.AddNodes(s.Node("a"))
		s.CreatePVs(s.LocalPV("only", "a"))
		s.CreatePVC(s.PVC("data"))
		s.CreatePVC(s.PVC("other"))
	}
	s.during = func() {
		scheduler, tap := s.start()
		held := tap.Hold(volumeWrite)
		pod := s.CreatePod(s.Pod("pod").PVC("data"))
		s.WaitHeld(held)
		s.DeletePod(pod)
		pods := scheduler.Informers.Core().V1().Pods()
		hasSeen(s.Env, pods.Informer(), "the pod's deletion", func() bool {
			_, err := pods.Lister().Pods(s.Namespace).Get("pod")
			return apierrors.IsNotFound(err)
		})
		held.Release()
		claim := "data" // which a PV controller may have bound
		if s.alone {
			claim = "other"
			s.wantFree("only")
		}
		next := s.CreatePod(s.Pod("next").PVC(claim))
		s.WaitBound(claim, "only")
		wantSettled(s.Env, next)
		wantNothingReserved(s.Env, scheduler)
	}
	s.after = func() { wantConsistent(s.Env) }
}
