// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// cleaner is who deletes the contents of local volumes and publishes them
// again: here the test.
const cleaner = "stowage.dev/cleaner"

// important is a priority class that every cluster has. The API server may not
// know a new one yet.
const important = "system-cluster-critical"

// disk is the only volume of a node.
func disk(e *fixture.Env, node string) *builders.PV {
	return e.LocalPV("disk-"+node, node).Capacity("2Gi").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).ProvisionedBy(cleaner)
}

// occupy makes a node for each pod and a pod of low priority on it that has
// the node's only volume for itself.
func occupy(e *fixture.Env, change func(*builders.PV) *builders.PV, nodes ...string) (holders []*v1.Pod) {
	e.T.Helper()
	for _, name := range nodes {
		e.AddNodes(e.Node(name))
		e.CreatePVs(change(disk(e, name)))
		pod := e.CreatePod(e.Pod("on-"+name).NodeSelector(v1.LabelHostname, e.Name(name)).Ephemeral("scratch", e.PVC("").Obj()))
		e.WaitScheduled(pod, name)
		e.WaitBound("on-"+name+"-scratch", "disk-"+name)
		holders = append(holders, pod)
	}
	return holders
}

func asItIs(pv *builders.PV) *builders.PV { return pv }

// victims are the pods that are deleted or terminating.
func victims(e *fixture.Env, holders []*v1.Pod) (gone []*v1.Pod) {
	for _, pod := range holders {
		if seen := e.SeenPod(pod.Name); seen == nil || seen.UID != pod.UID || seen.DeletionTimestamp != nil {
			gone = append(gone, pod)
		}
	}
	return gone
}

// createImportant makes a pod of high priority with a claim of this size.
func createImportant(e *fixture.Env, size string) *v1.Pod {
	e.T.Helper()
	e.CreatePVC(e.PVC("data").Request(size))
	pod := e.Pod("important").PVC("data").Obj()
	pod.Spec.PriorityClassName = important
	return e.CreatePodObject(pod)
}

// remove deletes a Released volume, as who begins to clean it does.
func remove(e *fixture.Env, name string) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	if err := e.Client.CoreV1().PersistentVolumes().Delete(ctx, e.Name(name), metav1.DeleteOptions{}); err != nil {
		e.T.Fatal(err)
	}
	e.Wait("volume "+name+" to be deleted", func() bool { return e.SeenPV(name) == nil })
}

func released(v *v1.PersistentVolume) bool { return v.Status.Phase == v1.VolumeReleased }

// TestPreemption: the only volumes belong to pods of lower priority.
// One of them is evicted, and its volume is recycled for the important pod. The
// cleaner is slow, and the scheduler retries the pod repeatedly.
func TestPreemption(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]fixture.Profile{"Direct": {}, "PVController": {Args: fixture.PVControllerArgs()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			s := e.Start(fixture.SchedulerOptions{Profiles: []fixture.Profile{profile}})
			e.Use(s.Name())
			holders := occupy(e, asItIs, "a", "b", "c")
			pod := createImportant(e, "2Gi")
			e.Wait("a pod of low priority to go", func() bool { return len(victims(e, holders)) > 0 })
			victim := victims(e, holders)[0]
			node := victim.Spec.NodeSelector[v1.LabelHostname]
			disk := "disk-" + node[len(e.Namespace)+1:]
			tryAgain := func(while string) {
				t.Helper()
				for range 3 {
					before := s.Attempts(pod)
					s.Scheduler.SchedulingQueue.Activate(klog.Background(), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: e.SeenPod(pod.Name)})
					e.WaitAttempt(s, pod, before+1)
				}
				if gone := victims(e, holders); len(gone) != 1 || gone[0] != victim {
					t.Fatalf("%d pods were evicted while %s, want the first one only\n%s", len(gone), while, e.Dump())
				}
			}
			e.WaitPV(disk, "Released", released)
			tryAgain("the volume is Released")
			remove(e, disk)
			tryAgain("the disk is being cleaned")
			e.CreatePVs(e.LocalPV("cleaned", node).Capacity("2Gi").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).ProvisionedBy(cleaner))
			if got := e.WaitScheduled(pod).Spec.NodeName; got != node {
				t.Errorf("the important pod is on node %s, the volume freed for it on %s", got, node)
			}
			e.WaitBound("data", "cleaned")
			if gone := victims(e, holders); len(gone) != 1 {
				t.Errorf("%d pods were evicted, want 1", len(gone))
			}
			e.NoVolumeTwice()
		})
	}
}

// TestPreemptionOfCapacity: evicting a pod gives its volume's bytes back to the
// driver, whose next figure lets the important pod in.
func TestPreemptionOfCapacity(t *testing.T) {
	t.Parallel()
	preemptCapacity(fixture.New(t), func(*v1.Pod) {})
}

// TestWokenDuringEviction is TestPreemptionOfCapacity for a pod that something wakes before
// the victim's eviction has been sent.
func TestWokenDuringEviction(t *testing.T) {
	t.Parallel()
	e, tap := fixture.New(t), fixture.NewTap()
	s := e.Start(fixture.SchedulerOptions{Tap: tap})
	e.Use(s.Name())
	held := tap.Hold(fixture.Is("delete", "pods"))
	t.Cleanup(held.Release)
	preemptCapacity(e, func(pod *v1.Pod) {
		e.WaitHeld(held)
		e.WaitUnschedulable(pod, "did not have enough free storage")
		s.Scheduler.SchedulingQueue.Activate(klog.Background(), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
		held.Release()
	})
}

// preemptCapacity calls evicting once the important pod exists, before any pod is gone.
func preemptCapacity(e *fixture.Env, evicting func(important *v1.Pod)) {
	e.T.Helper()
	createClass(e)
	trackCapacity(e, true)
	startProvisioner(e, nil)
	var holders []*v1.Pod
	for _, name := range []string{"a", "b"} {
		e.AddNodes(e.Node(name))
		publish(e, nodeCapacity(e, name, name).Capacity("100Gi"))
		pod := e.CreatePod(e.Pod("on-"+name).NodeSelector(v1.LabelHostname, e.Name(name)).Ephemeral("scratch", made(e, "", "90Gi").Obj()))
		e.WaitScheduled(pod, name)
		e.WaitBound("on-"+name+"-scratch", "pvc-on-"+name+"-scratch")
		publish(e, nodeCapacity(e, name, name).Capacity("10Gi"))
		holders = append(holders, pod)
	}
	e.CreatePVC(made(e, "data", "60Gi"))
	object := e.Pod("important").PVC("data").Obj()
	object.Spec.PriorityClassName = important
	pod := e.CreatePodObject(object)
	evicting(pod)
	e.Wait("a pod of low priority to go", func() bool { return len(victims(e, holders)) > 0 })
	victim := victims(e, holders)[0]
	volume := "pvc-" + victim.Name + "-scratch"
	e.Wait("its volume to be deleted", func() bool { return e.SeenPV(volume) == nil })
	node := victim.Name[len("on-"):]
	publish(e, nodeCapacity(e, node, node).Capacity("100Gi"))
	e.WaitScheduled(pod, node)
	e.WaitBound("data", "pvc-data")
	if gone := victims(e, holders); len(gone) != 1 {
		e.T.Errorf("%d pods were evicted, want 1", len(gone))
	}
}

// TestNoUselessPreemption: no pod is evicted whose volume would not help.
func TestNoUselessPreemption(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*builders.PV) *builders.PV
		size   string
	}{
		"the volumes would be kept": {
			change: func(pv *builders.PV) *builders.PV { return pv.ReclaimPolicy(v1.PersistentVolumeReclaimRetain) },
			size:   "2Gi",
		},
		"the volumes are too small": {change: asItIs, size: "3Gi"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			holders := occupy(e, test.change, "a", "b")
			pod := createImportant(e, test.size)
			e.WaitUnschedulable(pod, noVolume, "Preemption is not helpful for scheduling")
			if gone := victims(e, holders); len(gone) != 0 {
				t.Errorf("%d pods were evicted for nothing", len(gone))
			}
		})
	}
}

// busy makes pods request so much CPU that no other such pod fits on their node.
func busy(pod *builders.Pod) *builders.Pod { return pod.Requests("20", "1Gi") }

// waiting is the state in which a pod has been evicted for an important one, and its
// volume is not free again yet.
type waiting struct {
	*fixture.Env
	holders    []*v1.Pod
	pod        *v1.Pod
	node, disk string // where the victim was, and its volume
}

// evictOne runs until the volume is Released.
func evictOne(e *fixture.Env) *waiting {
	e.T.Helper()
	w := &waiting{Env: e}
	for _, name := range []string{"a", "b", "c"} {
		e.AddNodes(e.Node(name))
		e.CreatePVs(disk(e, name))
		pod := e.CreatePod(busy(e.Pod("on-"+name)).NodeSelector(v1.LabelHostname, e.Name(name)).Ephemeral("scratch", e.PVC("").Obj()))
		e.WaitScheduled(pod, name)
		e.WaitBound("on-"+name+"-scratch", "disk-"+name)
		w.holders = append(w.holders, pod)
	}
	e.CreatePVC(e.PVC("data").Request("2Gi"))
	object := busy(e.Pod("important")).PVC("data").Obj()
	object.Spec.PriorityClassName = important
	w.pod = e.CreatePodObject(object)
	e.Wait("a pod of low priority to go", func() bool { return len(victims(e, w.holders)) > 0 })
	w.node = victims(e, w.holders)[0].Name[len("on-"):]
	w.disk = "disk-" + w.node
	e.WaitPV(w.disk, "Released", released)
	return w
}

// tryAgain makes the scheduler retry the important pod a few times.
func (w *waiting) tryAgain(s *fixture.Scheduler, while string) {
	w.T.Helper()
	for range 3 {
		before := s.Attempts(w.pod)
		s.Scheduler.SchedulingQueue.Activate(klog.Background(), map[string]*v1.Pod{w.pod.Namespace + "/" + w.pod.Name: w.SeenPod(w.pod.Name)})
		w.WaitAttempt(s, w.pod, before+1)
	}
	w.wantOneVictim(while)
	if got := w.SeenPod(w.pod.Name).Status.NominatedNodeName; got != w.Name(w.node) {
		w.T.Errorf("while %s, the pod is nominated to node %q, want %q\n%s", while, got, w.Name(w.node), w.Dump())
	}
}

func (w *waiting) wantOneVictim(while string) {
	w.T.Helper()
	if gone := victims(w.Env, w.holders); len(gone) != 1 {
		w.T.Errorf("%d pods were evicted while %s, want 1\n%s", len(gone), while, w.Dump())
	}
}

// TestFreedStorageIsKept: while the disk of the only victim is cleaned, the important pod
// stays nominated, so that no pod of low priority takes the victim's CPU, and when the
// volume is back, no such pod takes that, though it may be retried first.
func TestFreedStorageIsKept(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	s := e.Start(fixture.SchedulerOptions{MaxBackoffSeconds: 4})
	e.Use(s.Name())
	w := evictOne(e)
	w.tryAgain(s, "the volume is Released")
	e.WaitUnschedulable(w.pod, "waiting for the storage of evicted pods to be available again on node")
	cpu := e.CreatePod(busy(e.Pod("cpu")))
	e.WaitUnschedulable(cpu, "Insufficient cpu")
	remove(e, w.disk)
	w.tryAgain(s, "the disk is being cleaned")
	e.CreatePVC(e.PVC("rival").Request("1Gi"))
	rival := e.CreatePod(e.Pod("rival").PVC("rival"))
	e.WaitUnschedulable(rival, noVolume)
	e.CreatePVs(e.LocalPV("cleaned", w.node).Capacity("2Gi").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).ProvisionedBy(cleaner))
	e.WaitScheduled(w.pod, w.node)
	e.WaitBound("data", "cleaned")
	w.wantOneVictim("the volume was published")
	for _, pod := range []*v1.Pod{cpu, rival} {
		if seen := e.SeenPod(pod.Name); seen == nil || seen.UID != pod.UID || seen.Spec.NodeName != "" {
			t.Errorf("pod %s of low priority was placed on the freed volume\n%s", pod.Name, e.Dump())
		}
	}
	e.NoVolumeTwice()
}

// TestRestartWhileCleaning: a scheduler that is started while the disk is cleaned knows
// from the objects that the pod waits, and evicts nothing.
func TestRestartWhileCleaning(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	options := fixture.SchedulerOptions{Profiles: []fixture.Profile{{Name: e.Name("restarted")}}}
	s := e.Start(options)
	e.Use(s.Name())
	w := evictOne(e)
	w.tryAgain(s, "the volume is Released")
	s.Stop()
	s = e.Start(options)
	e.WaitAttempt(s, w.pod, 1)
	w.tryAgain(s, "the volume is Released and the scheduler has been restarted")
	s.Stop()
	remove(e, w.disk)
	s = e.Start(options)
	e.WaitAttempt(s, w.pod, 1)
	w.tryAgain(s, "the volume is deleted and the scheduler has been restarted")
	e.CreatePVs(e.LocalPV("cleaned", w.node).Capacity("2Gi").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).ProvisionedBy(cleaner))
	e.WaitScheduled(w.pod, w.node)
	e.WaitBound("data", "cleaned")
	w.wantOneVictim("the volume was published")
}
