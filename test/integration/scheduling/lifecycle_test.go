// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestPodDeletedWhileWaiting: the volume that it waited for serves another pod.
func TestPodDeletedWhileWaiting(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.CreatePVC(e.PVC("other"))
	pod := create(e, oneNode(e, e.PVC("data")))
	other := e.CreatePod(e.Pod("other").PVC("other"))
	e.WaitUnschedulable(pod, noVolume)
	e.WaitUnschedulable(other, noVolume)
	e.DeletePod(pod)
	e.CreatePVs(e.LocalPV("volume", "a"))
	e.WaitScheduled(other, "a")
	wantBindings(e, map[string]string{"other": "volume"})
}

// TestPodDeletedWhileBinding: another pod, refused while the first had reserved
// the only volume, is not stuck when the first is deleted. The first one's claim
// may keep that volume, for its claimRef may be seen before it is removed.
func TestPodDeletedWhileBinding(t *testing.T) {
	t.Parallel()
	bindingHeld(t, func(e *fixture.Env, pod *v1.Pod, release func()) {
		e.CreatePVC(e.PVC("other"))
		other := e.CreatePod(e.Pod("other").PVC("other"))
		e.WaitUnschedulable(other, noVolume)
		e.DeletePod(pod)
		release()
		e.CreatePVs(e.LocalPV("another", "a"))
		e.WaitScheduled(other, "a")
		e.WaitBound("other", "")
		e.NoVolumeTwice()
	})
}

// TestPodRecreatedWhileBinding: the new pod of the same name gets the claims
// of the old one.
func TestPodRecreatedWhileBinding(t *testing.T) {
	t.Parallel()
	bindingHeld(t, func(e *fixture.Env, pod *v1.Pod, release func()) {
		e.DeletePod(pod)
		again := e.CreatePod(e.Pod("pod").PVC("data"))
		release()
		e.WaitScheduled(again, "a")
		wantBindings(e, map[string]string{"data": "volume"})
		e.NoVolumeTwice()
	})
}

// bindingHeld makes a pod reserve the only volume and holds the scheduler's write
// of the claimRef until release is called. Both binding modes.
func bindingHeld(t *testing.T, test func(e *fixture.Env, pod *v1.Pod, release func())) {
	t.Helper()
	profiles := map[string]fixture.Profile{"Direct": {}, "PVController": {Args: fixture.PVControllerArgs()}}
	for name, profile := range profiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			tap := fixture.NewTap()
			held := tap.Hold(nth(1, fixture.Is("update", "persistentvolumes")))
			s := e.Start(fixture.SchedulerOptions{Tap: tap, Profiles: []fixture.Profile{profile}})
			e.Use(s.Name())
			pod := create(e, oneNode(e, e.PVC("data"), e.LocalPV("volume", "a")))
			e.WaitHeld(held)
			test(e, pod, held.Release)
		})
	}
}

// TestPodRecreated: a pod of the same name with a bound claim is placed on its
// volume's node, any number of times.
func TestPodRecreated(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		pod := create(e, scene{
			nodes:   []*builders.Node{e.Node("a"), e.Node("b")},
			volumes: []*builders.PV{e.LocalPV("on-a", "a").Capacity("5Gi"), e.LocalPV("on-b", "b")},
			claims:  []*builders.PVC{e.PVC("data").Request("2Gi")},
		})
		for range 3 {
			e.WaitScheduled(pod, "a")
			wantBindings(e, map[string]string{"data": "on-a"})
			e.DeletePod(pod)
			pod = e.CreatePod(e.Pod("pod").PVC("data"))
		}
		e.WaitScheduled(pod, "a")
	})
}

// TestStatefulSet: two claims a pod; scaled up, down and up again, every pod
// is bound to its former volumes.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		const nodes, replicas = 3, 5
		for n := range nodes {
			node := fmt.Sprintf("node-%d", n)
			e.AddNodes(e.Node(node))
			for v := range 2 {
				e.CreatePVs(
					e.LocalPV(fmt.Sprintf("data-%d-%d", n, v), node).Capacity("4Gi"),
					e.LocalPV(fmt.Sprintf("log-%d-%d", n, v), node))
			}
		}
		sets := e.Client.AppsV1().StatefulSets(e.Namespace)
		if _, err := sets.Create(e.Context(), statefulSet(e, "web", 2), metav1.CreateOptions{}); err != nil {
			e.T.Fatal(err)
		}
		scale := func(to int) {
			patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, to)
			if _, err := sets.Patch(e.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				e.T.Fatal(err)
			}
			waitReplicas(e, "web", to)
		}
		waitReplicas(e, "web", 2)
		scale(replicas)
		placement, bindings := e.Placement(), e.Bindings()
		scale(1)
		scale(replicas)
		if diff := cmp.Diff(placement, e.Placement()); diff != "" {
			e.T.Errorf("nodes of pods before and after (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(bindings, e.Bindings()); diff != "" {
			e.T.Errorf("volumes of claims before and after (-before +after):\n%s", diff)
		}
		e.NoVolumeTwice()
	})
}

// waitReplicas waits until exactly this number of pods of the set exist and run.
func waitReplicas(e *fixture.Env, set string, want int) {
	e.T.Helper()
	e.Wait(fmt.Sprintf("%d pods of the set", want), func() bool {
		for i := range want {
			if p := e.SeenPod(fmt.Sprintf("%s-%d", set, i)); p == nil || p.DeletionTimestamp != nil || p.Status.Phase != v1.PodRunning {
				return false
			}
		}
		return e.SeenPod(fmt.Sprintf("%s-%d", set, want)) == nil
	})
}

func statefulSet(e *fixture.Env, name string, replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	pod := e.Pod("").Label("app", name).Obj()
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            &replicas,
			ServiceName:         name,
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			Template:            v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			VolumeClaimTemplates: []v1.PersistentVolumeClaim{
				*e.PVC("data").Request("3Gi").Obj(), *e.PVC("log").Obj(),
			},
		},
	}
}
