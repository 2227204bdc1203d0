// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	compat "stowage.dev/kubecompat/plugin"

	"stowage.dev/stowage/pkg/testing/builders"
)

// hintCase is a test case of a queueing hint: the objects when the pod was rejected, and
// the event.
type hintCase struct {
	objects []runtime.Object
	pod     *v1.Pod
	// before and now are the event's objects, as the scheduler has them: now is nil for a
	// deletion, before for an addition.
	before, now runtime.Object
	want        fwk.QueueingHint
}

// run delivers the event to the hint before the cache's own handlers, and to the handlers
// afterwards.
func (e hintCase) run(t *testing.T, resource fwk.EventResource) {
	t.Helper()
	w := newTestbed(t, e.objects...)
	action := fwk.Update
	switch {
	case e.before == nil:
		action = fwk.Add
	case e.now == nil:
		action = fwk.Delete
	}
	if e.before != nil {
		w.put(e.before)
	}
	before := w.stored(e.before)
	if _, _, err := w.Cache().Demand(e.pod); err != nil { // when the pod was rejected
		t.Fatal(err)
	}
	w.hold()
	now := runtime.Object(nil)
	switch {
	case e.now != nil:
		w.put(e.now)
		now = w.stored(e.now)
	default:
		w.remove(e.before)
	}
	got, err := w.hint(resource, action)(klog.Background(), e.pod, untyped(before), untyped(now))
	if err != nil {
		t.Fatal(err)
	}
	if got != e.want {
		t.Errorf("hint returns %v, want %v", got, e.want)
	}
	w.check()
	w.release()
	w.check()
}

// untyped is nil for a missing object.
func untyped(object runtime.Object) any {
	if object == nil {
		return nil
	}
	return object
}

// hint is the function registered for the event.
func (w *testbed) hint(resource fwk.EventResource, action fwk.ActionType) fwk.QueueingHintFn {
	w.t.Helper()
	events, err := w.EventsToRegister(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range events {
		if e.Event.Resource == resource && e.Event.ActionType&action != 0 {
			return e.QueueingHintFn
		}
	}
	w.t.Fatalf("nothing is registered for %v of %v", action, resource)
	return nil
}

func runHints(t *testing.T, resource fwk.EventResource, cases map[string]hintCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.run(t, resource)
		})
	}
}

func TestHintStorageClass(t *testing.T) {
	t.Parallel()
	waiting := []runtime.Object{node("a").Zone("z").Obj(), claim("c", "1Gi").Class("csi").Obj(), claim("other", "1Gi").Obj()}
	runHints(t, fwk.StorageClass, map[string]hintCase{
		"the missing class is created": {
			objects: waiting, pod: pod("p", "c"),
			now: csiClass().Obj(), want: fwk.Queue,
		},
		"a class that no claim has": {
			objects: waiting, pod: pod("p", "c"),
			now: builders.MakeClass("else").Obj(), want: fwk.QueueSkip,
		},
		"the class of another pod's claim": {
			objects: waiting, pod: pod("p", "c"),
			now: localClass().Obj(), want: fwk.QueueSkip,
		},
		"the class by the beta annotation": {
			objects: []runtime.Object{claim("c", "1Gi").Class("else").BetaClass("csi").Obj()}, pod: pod("p", "c"),
			now: csiClass().Obj(), want: fwk.Queue,
		},
		"the class that the beta annotation overrides": {
			objects: []runtime.Object{claim("c", "1Gi").Class("csi").BetaClass("else").Obj()}, pod: pod("p", "c"),
			now: csiClass().Obj(), want: fwk.QueueSkip,
		},
		"a claim that does not exist": {
			pod: pod("p", "c"), now: csiClass().Obj(), want: fwk.QueueSkip,
		},
		"allowedTopologies changed": {
			objects: waiting, pod: pod("p", "c"),
			before: csiClass().AllowedTopology(v1.LabelTopologyZone, "y").Obj(),
			now:    csiClass().AllowedTopology(v1.LabelTopologyZone, "z").Obj(), want: fwk.Queue,
		},
		"allowedTopologies unchanged": {
			objects: waiting, pod: pod("p", "c"),
			before: csiClass().AllowedTopology(v1.LabelTopologyZone, "z").Obj(),
			now:    csiClass().AllowedTopology(v1.LabelTopologyZone, "z").Annotation("touched", "yes").Obj(), want: fwk.QueueSkip,
		},
		"the class was recreated": {
			objects: waiting, pod: pod("p", "c"), before: csiClass().UID("former").Obj(), now: csiClass().UID("latter").Obj(), want: fwk.Queue,
		},
		"allowedTopologies of another class changed": {
			objects: waiting, pod: pod("p", "other"),
			before: csiClass().AllowedTopology(v1.LabelTopologyZone, "y").Obj(),
			now:    csiClass().AllowedTopology(v1.LabelTopologyZone, "z").Obj(), want: fwk.QueueSkip,
		},
	})
}

func TestHintPersistentVolumeClaim(t *testing.T) {
	t.Parallel()
	ephemeral := builders.MakePod("p").UID("pod-p").Ephemeral("scratch", claim("", "1Gi").Obj()).Obj()
	runHints(t, fwk.PersistentVolumeClaim, map[string]hintCase{
		"the missing claim": {
			pod: pod("p", "c"), now: claim("c", "1Gi").Obj(), want: fwk.Queue,
		},
		"the claim of a generic ephemeral volume": {
			pod: ephemeral, now: claim("p-scratch", "1Gi").OwnedBy(ephemeral).Obj(), want: fwk.Queue,
		},
		"a claim of another name": {
			pod: pod("p", "c"), now: claim("d", "1Gi").Obj(), want: fwk.QueueSkip,
		},
		"a claim of that name in another namespace": {
			pod: pod("p", "c"), now: claim("c", "1Gi").Namespace("elsewhere").Obj(), want: fwk.QueueSkip,
		},
		"the claim was labelled": {
			pod: pod("p", "c"), before: claim("c", "1Gi").Obj(), now: claim("c", "1Gi").Label("touched", "yes").Obj(), want: fwk.QueueSkip,
		},
		"the claim was bound": {
			pod: pod("p", "c"), before: claim("c", "1Gi").Obj(), now: claim("c", "1Gi").Bound("v").Obj(), want: fwk.Queue,
		},
		"the binding was completed": {
			pod: pod("p", "c"), before: claim("c", "1Gi").VolumeName("v").Obj(), now: claim("c", "1Gi").VolumeName("v").BindCompleted().Obj(), want: fwk.Queue,
		},
		"the provisioner removed selected-node": {
			pod: pod("p", "c"), before: claim("c", "1Gi").SelectedNode("a").Obj(), now: claim("c", "1Gi").Obj(), want: fwk.Queue,
		},
		"the claim is no longer lost": {
			pod: pod("p", "c"), before: claim("c", "1Gi").Bound("v").Phase(v1.ClaimLost).Obj(), now: claim("c", "1Gi").Bound("v").Obj(), want: fwk.Queue,
		},
		"the claim was recreated": {
			pod: pod("p", "c"), before: claim("c", "1Gi").UID("old").Obj(), now: claim("c", "1Gi").UID("new").Obj(), want: fwk.Queue,
		},
		"an administrator changed the class by its annotation": {
			pod: pod("p", "c"), before: claim("c", "1Gi").Obj(), now: claim("c", "1Gi").BetaClass("else").Obj(), want: fwk.Queue,
		},
		"the claim was deleted": {
			pod: pod("p", "c"), before: claim("c", "1Gi").SelectedNode("a").Obj(), want: fwk.QueueSkip,
		},
		"selected-node was removed from another pod's claim": {
			pod: pod("p", "c"), before: claim("d", "1Gi").SelectedNode("a").Obj(), now: claim("d", "1Gi").Obj(), want: fwk.QueueSkip,
		},
		"the bound claim was resized": {
			pod: pod("p", "c"), before: claim("d", "1Gi").Bound("v").Obj(), now: claim("d", "2Gi").Bound("v").Obj(), want: fwk.QueueSkip,
		},
	})
}

func TestHintNode(t *testing.T) {
	t.Parallel()
	local := []runtime.Object{localClass().Obj(), claim("c", "1Gi").Obj(), volume("v", "a", "1Gi").Obj()}
	zonal := []runtime.Object{localClass().Obj(), claim("c", "1Gi").Obj(), volume("v", "", "1Gi").Zone("z").Obj()}
	selected := []runtime.Object{csiClass().Obj(), node("b").Obj(), claim("c", "1Gi").Class("csi").SelectedNode("a").Obj()}
	runHints(t, fwk.Node, map[string]hintCase{
		"the node of the free volume": {
			objects: local, pod: pod("p", "c"), now: node("a").Obj(), want: fwk.Queue,
		},
		"a node without volumes": {
			objects: local, pod: pod("p", "c"), now: node("b").Obj(), want: fwk.QueueSkip,
		},
		"a label puts the node into the volume's zone": {
			objects: zonal, pod: pod("p", "c"), before: node("a").Obj(), now: node("a").Zone("z").Obj(), want: fwk.Queue,
		},
		"another label": {
			objects: zonal, pod: pod("p", "c"), before: node("a").Obj(), now: node("a").Label("rack", "r1").Obj(), want: fwk.QueueSkip,
		},
		"a label puts the node into the topology that the class allows": {
			objects: []runtime.Object{csiClass().AllowedTopology(v1.LabelTopologyZone, "z").Obj(), claim("c", "1Gi").Class("csi").Obj()},
			pod:     pod("p", "c"), before: node("a").Zone("y").Obj(), now: node("a").Zone("z").Obj(), want: fwk.Queue,
		},
		"the selected node is deleted": {
			objects: selected, pod: pod("p", "c"), before: node("a").Obj(), want: fwk.Queue,
		},
		"another node than the selected one is deleted": {
			objects: selected, pod: pod("p", "c"), before: node("b").Obj(), want: fwk.QueueSkip,
		},
		"another node than the selected one is added": {
			objects: append([]runtime.Object{node("a").Obj()}, selected...), pod: pod("p", "c"), now: node("d").Obj(), want: fwk.QueueSkip,
		},
		"a node is added while the selected one is gone": {
			objects: selected, pod: pod("p", "c"), now: node("d").Obj(), want: fwk.Queue,
		},
		"the pod waits for a claim, not for a node": {
			objects: local, pod: pod("p", "c", "missing"), now: node("a").Obj(), want: fwk.QueueSkip,
		},
	})
}

// TestHintPod: only the deletion of a pod of lower priority that a scheduler has evicted
// wakes a pod.
func TestHintPod(t *testing.T) {
	t.Parallel()
	on := func(priority int32, reason string) *v1.Pod {
		gone := builders.MakePod("gone").UID("pod-gone").Node("a").Priority(priority).Obj()
		gone.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason}}
		return gone
	}
	waiting := []runtime.Object{localClass().Obj(), node("a").Obj(), claim("c", "1Gi").Obj()}
	runHints(t, compat.AssignedPod, map[string]hintCase{
		"an evicted pod of lower priority":            {objects: waiting, pod: important("p", "c"), before: on(9, v1.PodReasonPreemptionByScheduler), want: fwk.Queue},
		"an evicted pod of the same priority":         {objects: waiting, pod: important("p", "c"), before: on(10, v1.PodReasonPreemptionByScheduler), want: fwk.QueueSkip},
		"a pod that its node's kubelet has evicted":   {objects: waiting, pod: important("p", "c"), before: on(9, v1.PodReasonTerminationByKubelet), want: fwk.QueueSkip},
		"a pod of lower priority that has been ended": {objects: waiting, pod: important("p", "c"), before: holder("gone", "a"), want: fwk.QueueSkip},
	})
}

func TestHintCSINode(t *testing.T) {
	t.Parallel()
	// As an in-tree volume it is reachable from nodes with the beta zone label; CSI uses
	// its own topology key.
	inTree := builders.MakePV("v").Class("local").ClaimRef("default", "c", "pvc-c").Phase(v1.VolumeBound).
		Source(v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}).
		Affinity(builders.Term(builders.In(v1.LabelFailureDomainBetaZone, "us-1a"))).Obj()
	waiting := []runtime.Object{
		localClass().Obj(), claim("c", "1Gi").Bound("v").Obj(), inTree,
		node("a").Label("topology.ebs.csi.aws.com/zone", "us-1a").Obj(),
	}
	csiNode := func(name string, migrated ...string) *storagev1.CSINode {
		n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, plugin := range migrated {
			n.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: plugin}
		}
		return n
	}
	const ebs = "kubernetes.io/aws-ebs"
	runHints(t, fwk.CSINode, map[string]hintCase{
		"the volume's plugin was migrated": {
			objects: waiting, pod: pod("p", "c"), before: csiNode("a"), now: csiNode("a", ebs), want: fwk.Queue,
		},
		"the new node has the plugin migrated": {
			objects: waiting, pod: pod("p", "c"), now: csiNode("a", ebs), want: fwk.Queue,
		},
		"another plugin was migrated": {
			objects: waiting, pod: pod("p", "c"), before: csiNode("a"), now: csiNode("a", "kubernetes.io/cinder"), want: fwk.QueueSkip,
		},
		"nothing was migrated": {
			objects: waiting, pod: pod("p", "c"), before: csiNode("a", ebs), now: csiNode("a", ebs), want: fwk.QueueSkip,
		},
		"on a node that cannot reach the volume either way": {
			objects: append([]runtime.Object{node("b").Obj()}, waiting...), pod: pod("p", "c"),
			before: csiNode("b"), now: csiNode("b", ebs), want: fwk.QueueSkip,
		},
		"the pod's volume is not an in-tree volume": {
			objects: []runtime.Object{
				localClass().Obj(), claim("c", "1Gi").Bound("v").Obj(), node("a").Obj(),
				volume("v", "a", "1Gi").ClaimRef("default", "c", "pvc-c").Phase(v1.VolumeBound).Obj(),
			},
			pod: pod("p", "c"), before: csiNode("a"), now: csiNode("a", ebs), want: fwk.QueueSkip,
		},
	})
}

// TestNodeHintPerPod: the cached verdict on an event for one pod does not apply to
// another whose class was added to the cache in between.
func TestNodeHintPerPod(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), csiClass().AllowedTopology(v1.LabelTopologyZone, "z").Obj(),
		claim("l", "1Gi").Obj(), claim("c", "1Gi").Class("csi").Obj(), node("a").Zone("y").Obj())
	before := w.stored(node("a").Obj())
	w.put(node("a").Zone("z").Obj())
	now, hint := w.stored(node("a").Obj()), w.hint(fwk.Node, fwk.UpdateNodeLabel)
	check := func(pod *v1.Pod, want fwk.QueueingHint) {
		t.Helper()
		if got, err := hint(klog.Background(), pod, before, now); got != want || err != nil {
			t.Errorf("pod %s: hint returns %v, error %v, want %v", pod.Name, got, err, want)
		}
	}
	check(pod("first", "l"), fwk.QueueSkip)
	w.begin(pod("second", "c"))
	check(pod("second", "c"), fwk.Queue)
}

// TestHintOfWrongObject: the scheduler queues the pod when a hint returns an error.
func TestHintOfWrongObject(t *testing.T) {
	t.Parallel()
	w := newTestbed(t)
	got, err := w.hint(fwk.Node, fwk.Add)(klog.Background(), pod("p", "c"), nil, &v1.Pod{})
	if err == nil || got != fwk.Queue {
		t.Errorf("hint returns %v, error %v; want Queue and an error", got, err)
	}
}
