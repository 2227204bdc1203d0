// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	inspect "stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/inspect/why"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	"stowage.dev/stowage/pkg/scheduling/volumetopology"
	. "stowage.dev/stowage/pkg/testing/builders"
)

// ask asks why a pod of the objects waits.
func ask(t *testing.T, name string, objects ...snapshot.Object) *inspect.PodReport {
	t.Helper()
	return askWith(t, nil, name, objects...)
}

// askWith is like ask, with a scheduler that has extenders.
func askWith(t *testing.T, extenders []string, name string, objects ...snapshot.Object) *inspect.PodReport {
	t.Helper()
	s := snapshot.Build(objects...)
	simulator, err := simulate.New(t.Context(), simulate.Config{
		Snapshot: s, Profile: schedulerconfig.Default().Profiles[0], Plugins: frameworkruntime.Registry{volumetopology.Name: volumetopology.New},
	})
	if err != nil {
		t.Fatal(err)
	}
	report, err := why.Pod(t.Context(), why.PodQuestion{Snapshot: s, Pod: snapshot.Find[*corev1.Pod](s, DefaultNamespace, name), Simulator: simulator, Extenders: extenders})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// lines is what a test compares of a report.
func lines(r *inspect.PodReport) []string {
	all := []string{string(r.State) + ": " + r.Sentence}
	for _, c := range r.Claims {
		all = append(all, "claim "+c.Name+" "+c.State)
	}
	for _, g := range r.Groups {
		for _, reason := range g.Reasons {
			all = append(all, fmt.Sprintf("%s: %s: %s: %s", strings.Join(g.Nodes, ","), reason.Plugin, reason.Message, reason.Detail))
		}
	}
	for _, c := range r.Changes {
		all = append(all, c.Kind+": "+c.Text)
	}
	return append(all, r.Notes...)
}

func class() *storagev1.StorageClass { return MakeClass("local").Obj() }

func tainted(name string) *corev1.Node {
	node := MakeNode(name).Obj()
	node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
	return node
}

func cordoned(name string) *corev1.Node {
	node := MakeNode(name).Obj()
	node.Spec.Unschedulable = true
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	return node
}

func gated(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	return pod
}

func TestPod(t *testing.T) {
	pod := func() *Pod { return MakePod("db-0").SchedulerName(schedulerconfig.Name).PVC("data") }
	claim := MakePVC("data").Class("local").Request("10Gi")
	bound := MakePVC("data").Class("local").Request("10Gi").Bound("a-10")
	volume := func(name, node, size string) *PV { return MakePV(name).Class("local").Hostname(node).Capacity(size) }
	tests := map[string]struct {
		objects []snapshot.Object
		want    []string
	}{
		"no volume is large enough": {
			objects: []snapshot.Object{
				pod().Obj(), claim.Obj(), class(), MakeNode("a").Obj(), tainted("b"),
				volume("a-8", "a", "8Gi").Obj(), volume("a-20", "a", "20Gi").ClaimRef("other", "x", "").Obj(),
			},
			want: []string{
				"Unschedulable: Pod default/db-0 waits: none of 2 nodes fits. a: no fitting volume for claim data; b: untolerated taint dedicated=db:NoSchedule, no fitting volume for claim data.",
				"claim data waits for a node of the pod",
				"a: VolumeTopology: node(s) didn't find available persistent volumes to bind: it requests 10Gi of class local; 1 volume is free, the largest 8Gi; 1 volume reserved for other/x",
				"b: TaintToleration: node(s) had untolerated taint(s): dedicated=db:NoSchedule",
				"b: VolumeTopology: node(s) didn't find available persistent volumes to bind: it requests 10Gi of class local; no volume is free",
				"AddVolume: add a volume of at least 10Gi in class local on node a, for claim data",
				"ShrinkClaim: recreate claim data with a request of at most 8Gi, for node a",
			},
		},
		"a taint": {
			objects: []snapshot.Object{pod().Obj(), claim.Obj(), class(), tainted("a"), volume("a-10", "a", "10Gi").Obj()},
			want: []string{
				"Unschedulable: Pod default/db-0 waits: the only node does not fit. a: untolerated taint dedicated=db:NoSchedule.",
				"claim data waits for a node of the pod",
				"a: TaintToleration: node(s) had untolerated taint(s): dedicated=db:NoSchedule",
				"RemoveTaint: remove taint dedicated=db:NoSchedule from node a, or tolerate it",
			},
		},
		"a claim that does not exist": {
			objects: []snapshot.Object{pod().Obj(), MakeNode("a").Obj()},
			want: []string{
				"Unschedulable: Pod default/db-0 waits, wherever it would run: persistentvolumeclaim \"data\" not found.",
				"claim data does not exist",
			},
		},
		"too much CPU": {
			objects: []snapshot.Object{pod().Requests("40", "").Obj(), claim.Obj(), class(), MakeNode("a").Obj(), MakePod("other").Node("a").Requests("2", "").Obj(), volume("a-10", "a", "10Gi").Obj()},
			want: []string{
				"Unschedulable: Pod default/db-0 waits: the only node does not fit. a: Insufficient cpu.",
				"claim data waits for a node of the pod",
				"a: NodeResourcesFit: Insufficient cpu: the pod requests 40, and 30 is free",
				"LowerRequest: request at most 30 of cpu, for node a, or free 10 there",
			},
		},
		"cordoned": {
			objects: []snapshot.Object{pod().Obj(), claim.Obj(), class(), cordoned("a"), volume("a-10", "a", "10Gi").Obj()},
			want: []string{
				"Unschedulable: Pod default/db-0 waits: the only node does not fit. a: cordoned, untolerated taint node.kubernetes.io/unschedulable:NoSchedule.",
				"claim data waits for a node of the pod",
				"a: NodeUnschedulable: node(s) were unschedulable: ",
				"a: TaintToleration: node(s) had untolerated taint(s): node.kubernetes.io/unschedulable:NoSchedule",
				"Uncordon: uncordon node a",
			},
		},
		"two claims, one volume": {
			objects: []snapshot.Object{MakePod("db-0").PVC("data", "log").Obj(), claim.Obj(), MakePVC("log").Class("local").Request("1Gi").Obj(), class(), MakeNode("a").Obj(), volume("a-10", "a", "10Gi").Obj()},
			want: []string{
				"Unschedulable: Pod default/db-0 waits: the only node does not fit. a: no fitting volume for claim log.",
				"claim data waits for a node of the pod",
				"claim log waits for a node of the pod",
				"a: VolumeTopology: node(s) didn't find available persistent volumes to bind: it requests 1Gi of class local; 1 free volume would fit, needed for the other claims of the pod or for nominated pods",
				"AddVolume: add a volume of at least 1Gi in class local on node a, for claim log",
			},
		},
		"a selected node is without a label": {
			objects: []snapshot.Object{pod().NodeSelector("disk", "fast").Obj(), claim.Obj(), class(), MakeNode("a").Obj(), volume("a-10", "a", "10Gi").Obj()},
			want: []string{
				"Unschedulable: Pod default/db-0 waits: the only node does not fit. a: not selected by the pod.",
				"claim data waits for a node of the pod",
				"a: NodeAffinity: node(s) didn't match Pod's node affinity/selector: ",
				"LabelNode: label node a with disk=fast, which the pod's nodeSelector requires",
			},
		},
		"too little capacity": {
			objects: []snapshot.Object{
				pod().Obj(), claim.Obj(), MakeClass("local").Provisioner("driver").Obj(), MakeCSIDriver("driver").StorageCapacity(true).Obj(), MakeNode("a").Obj(), MakeNode("b").Obj(),
				MakeCapacity("cap-a", "local").Hostname("a").Capacity("4Gi").Obj(), MakeCapacity("cap-b", "local").Hostname("b").Capacity("6Gi").Obj(),
			},
			want: []string{
				"Unschedulable: Pod default/db-0 waits: none of 2 nodes fits. a and b: too little capacity for claim data.",
				"claim data waits for a node of the pod",
				"a,b: VolumeTopology: node(s) did not have enough free storage: it requests 10Gi of class local; the driver reports 6Gi at most (b)",
				"AddCapacity: free or add capacity of class local for node b, until the driver reports 10Gi, for claim data",
				"ShrinkClaim: recreate claim data with a request of at most 6Gi, for node b",
			},
		},
		"bound to a volume of another node": {
			objects: []snapshot.Object{pod().NodeSelector(corev1.LabelHostname, "b").Obj(), bound.Obj(), class(), MakeNode("a").Obj(), MakeNode("b").Obj(), volume("a-10", "a", "10Gi").ClaimRef(DefaultNamespace, "data", "").Phase(corev1.VolumeBound).Obj()},
			want: []string{
				"Unschedulable: Pod default/db-0 waits: none of 2 nodes fits. a: not selected by the pod; b: the volume is on another node for claim data.",
				"claim data is bound to a-10 on a",
				"a: NodeAffinity: node(s) didn't match Pod's node affinity/selector: ",
				"b: VolumeTopology: node(s) didn't match PersistentVolume's node affinity: volume a-10 on a",
				"No change of a single object was found that helps.",
			},
		},
		"gated": {
			objects: []snapshot.Object{gated(pod().Obj()), claim.Obj(), class(), MakeNode("a").Obj(), volume("a-10", "a", "10Gi").Obj()},
			want: []string{
				"Gated: Pod default/db-0 is not in the queue of scheduler stowage-scheduler: waiting for scheduling gates: [example.com/quota].",
				"claim data waits for a node of the pod",
			},
		},
		"no nodes": {
			objects: []snapshot.Object{pod().Obj(), claim.Obj(), class()},
			want: []string{
				"Unschedulable: Pod default/db-0 waits: the cluster has no nodes.",
				"claim data waits for a node of the pod",
				"No change of a single object was found that helps.",
			},
		},
		"fits": {
			objects: []snapshot.Object{pod().Obj(), claim.Obj(), class(), MakeNode("a").Obj(), volume("a-10", "a", "10Gi").Obj()},
			want: []string{
				"Fits: Pod default/db-0 fits a. No scheduler has tried to place it: check that one serves schedulerName stowage-scheduler, and runs (kubectl stowage status).",
				"claim data waits for a node of the pod",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lines(ask(t, "db-0", tc.objects...))); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExtenders: what only an extender can decide is not known.
func TestExtenders(t *testing.T) {
	got := askWith(t, []string{"https://extender"}, "db-0", MakePod("db-0").SchedulerName(schedulerconfig.Name).Obj(), MakeNode("a").Obj())
	want := []string{
		"Unknown: The scheduler's plugins accept a for pod default/db-0; extenders decide, too, and were not called. No scheduler has said anything about it yet.",
		"The scheduler also asks extenders, which were not called: https://extender.",
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
