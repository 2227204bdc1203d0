// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	compat "stowage.dev/kubecompat/plugin"
	compatscheduler "stowage.dev/kubecompat/scheduler"

	"stowage.dev/stowage/pkg/testing/builders"
)

// preempting is DefaultPreemption as the scheduling queue has it.
type preempting struct {
	fwk.PreEnqueuePlugin
	running func() bool // whether it is evicting pods for the pod
}

func (preempting) Name() string { return "DefaultPreemption" }

func (p preempting) PreEnqueue(context.Context, *v1.Pod) *fwk.Status {
	if p.running() {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	return nil
}

// scheduling is a scheduling queue with the plugin's hints, and one pod that is scheduled
// from it, on node a.
type scheduling struct {
	*testbed
	*queue.PriorityQueue
	pod    *v1.Pod
	placed bool

	victim, volume, claim runtime.Object
}

func newScheduling(w *testbed, preemption preempting) *scheduling {
	w.t.Helper()
	hints := queue.QueueingHintMap{{Resource: compat.AssignedPod, ActionType: fwk.Delete}: {{
		PluginName:     preemption.Name(),
		QueueingHintFn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.QueueSkip, nil },
	}}}
	events, err := w.EventsToRegister(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		hints[e.Event] = append(hints[e.Event], &queue.QueueingHintFunction{PluginName: Name, QueueingHintFn: e.QueueingHintFn})
	}
	s := &scheduling{testbed: w}
	s.PriorityQueue = compatscheduler.NewQueue(w.factory,
		queue.WithQueueingHintMapPerProfile(queue.QueueingHintMapPerProfile{"profile": hints}),
		queue.WithPreEnqueuePluginMap(map[string]map[string]fwk.PreEnqueuePlugin{"profile": {preemption.Name(): preemption}}),
		queue.WithMetricsRecorder(metrics.NewMetricsAsyncRecorder(10, time.Second, w.t.Context().Done())))
	return s
}

// schedule attempts the pod while it is in the queue.
func (s *scheduling) schedule() {
	s.t.Helper()
	for !s.placed && len(s.PodsInActiveQ())+len(s.PodsInBackoffQ()) > 0 {
		info, err := compatscheduler.PopFromQueue(s.PriorityQueue)
		if err != nil {
			s.t.Fatal(err)
		}
		c := &cycle{testbed: s.testbed, state: framework.NewCycleState(), pod: info.Pod}
		_, status := s.PreFilter(s.t.Context(), c.state, c.pod, nil)
		if s.placed = status.IsSuccess() && c.filter("a", s.podsOnA()...).IsSuccess(); s.placed {
			return
		}
		info.UnschedulablePlugins = sets.New(Name)
		if err := compatscheduler.Reject(s.PriorityQueue, info); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (w *testbed) podsOnA() (pods []*v1.Pod) {
	for _, object := range w.informer(&v1.Pod{}).GetStore().List() {
		if pod := object.(*v1.Pod); pod.Spec.NodeName == "a" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// gone deletes the object and reports it to the queue.
func (s *scheduling) gone(resource fwk.EventResource, object runtime.Object) {
	last := s.stored(object)
	s.remove(object)
	s.MoveAllToActiveOrBackoffQueue(klog.Background(), fwk.ClusterEvent{Resource: resource, ActionType: fwk.Delete}, last, nil, nil)
}

// TestWokenAfterEviction: once the storage of an evicted pod is available again, the pod
// that waits for it is placed, whatever the order of the events, also if something woke it
// during the eviction.
func TestWokenAfterEviction(t *testing.T) {
	t.Parallel()
	metrics.Register()
	for claim, storage := range map[string]struct {
		volume *builders.PV // of the evicted pod
		event  fwk.ClusterEvent
		now    runtime.Object // what is available again
	}{
		"made": {
			deleted("v", "a", "90Gi").Class("csi").CSI(driver, "1"),
			fwk.ClusterEvent{Resource: fwk.CSIStorageCapacity, ActionType: fwk.Update}, capacity("r", "a", "100Gi").Obj(),
		},
		"local": {
			deleted("v", "a", "2Gi"),
			fwk.ClusterEvent{Resource: fwk.PersistentVolume, ActionType: fwk.Add}, deleted("cleaned", "a", "2Gi").Obj(),
		},
	} {
		for _, order := range permutations([]string{"pod", "claim", "volume", "available"}) {
			for _, woken := range []bool{false, true} {
				for _, late := range []bool{false, true} {
					s := duringEviction(t, claim, storage.volume)
					if woken {
						s.Activate(klog.Background(), map[string]*v1.Pod{"default/p": s.pod})
					}
					s.held = late
					for _, event := range order {
						switch event {
						case "pod":
							s.gone(compat.AssignedPod, s.victim)
						case "volume":
							s.gone(fwk.PersistentVolume, s.volume)
						case "claim":
							s.gone(fwk.PersistentVolumeClaim, s.claim)
						case "available":
							before := any(nil)
							if storage.event.ActionType == fwk.Update {
								before = s.stored(storage.now)
							}
							s.put(storage.now)
							s.MoveAllToActiveOrBackoffQueue(klog.Background(), storage.event, before, s.stored(storage.now), nil)
						}
						s.schedule()
					}
					if !s.placed {
						t.Errorf("the pod with claim %s is not placed: events %v, woken during the eviction %t, the cache is late %t", claim, order, woken, late)
					}
					s.release()
					s.check()
				}
			}
		}
	}
}

// duringEviction has rejected a pod with the claim, for which DefaultPreemption evicts another
// one.
func duringEviction(t *testing.T, claimName string, volume *builders.PV) *scheduling {
	t.Helper()
	w := newTestbed(t, localClass().Obj(), csiClass().Obj(), csiDriver(true), node("a").Obj(), capacity("r", "a", "10Gi").Obj(),
		claim("made", "60Gi").Class("csi").Obj(), claim("local", "2Gi").Obj())
	victim := holder("victim", "a")
	storage := held(victim, volume)
	p := important("p", claimName)
	p.Spec.SchedulerName = "profile"
	w.put(append(storage, p)...)
	began := false
	s := newScheduling(w, preempting{running: func() bool { return began && len(w.podsOnA()) > 0 }})
	s.victim, s.volume, s.claim, s.pod = victim, storage[1], storage[2], p
	compatscheduler.AddToQueue(t.Context(), s.PriorityQueue, p)
	if s.schedule(); s.placed {
		t.Fatal("the pod fits before the eviction")
	}
	began = true
	victim.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
	w.put(victim)
	return s
}

func permutations(of []string) (all [][]string) {
	if len(of) == 0 {
		return [][]string{nil}
	}
	for i, first := range of {
		for _, rest := range permutations(slices.Delete(slices.Clone(of), i, i+1)) {
			all = append(all, append([]string{first}, rest...))
		}
	}
	return all
}
