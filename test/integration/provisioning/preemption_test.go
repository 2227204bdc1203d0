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
// know yet of one that has just been made.
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

// victims are the pods that are gone or leaving.
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
	e.Wait("volume "+name+" to be gone", func() bool { return e.SeenPV(name) == nil })
}

func released(v *v1.PersistentVolume) bool { return v.Status.Phase == v1.VolumeReleased }

// TestPreemption: the only volumes there are belong to pods of lower priority.
// One of them has to go, and its volume is made anew for the important pod. The
// cleaner takes its time, and the scheduler looks at the pod again and again.
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
	e := fixture.New(t)
	createClass(e)
	trackCapacity(e, true)
	startProvisioner(e, nil)
	var holders []*v1.Pod
	for _, name := range []string{"a", "b"} {
		e.AddNodes(e.Node(name))
		publish(e, room(e, name, name).Capacity("100Gi"))
		pod := e.CreatePod(e.Pod("on-"+name).NodeSelector(v1.LabelHostname, e.Name(name)).Ephemeral("scratch", made(e, "", "90Gi").Obj()))
		e.WaitScheduled(pod, name)
		e.WaitBound("on-"+name+"-scratch", "pvc-on-"+name+"-scratch")
		publish(e, room(e, name, name).Capacity("10Gi"))
		holders = append(holders, pod)
	}
	e.CreatePVC(made(e, "data", "60Gi"))
	object := e.Pod("important").PVC("data").Obj()
	object.Spec.PriorityClassName = important
	pod := e.CreatePodObject(object)
	e.Wait("a pod of low priority to go", func() bool { return len(victims(e, holders)) > 0 })
	victim := victims(e, holders)[0]
	volume := "pvc-" + victim.Name + "-scratch"
	e.Wait("its volume to be deleted", func() bool { return e.SeenPV(volume) == nil })
	node := victim.Name[len("on-"):]
	publish(e, room(e, node, node).Capacity("100Gi"))
	e.WaitScheduled(pod, node)
	e.WaitBound("data", "pvc-data")
	if gone := victims(e, holders); len(gone) != 1 {
		t.Errorf("%d pods were evicted, want 1", len(gone))
	}
}

// TestNoUselessPreemption: nobody is evicted whose volume would not help.
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
