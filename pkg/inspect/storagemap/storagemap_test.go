// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package storagemap

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	. "stowage.dev/stowage/pkg/testing/builders"
)

const gi = int64(1) << 30

func node(name, zone string) *corev1.Node { return MakeNode(name).Hostname(name).Zone(zone).Obj() }

func report(name string, entries ...stowage.Entry) *stowage.LocalDiskReport {
	return &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: stowage.LocalDiskReportSpec{NodeName: name, Page: 1},
		Status: stowage.LocalDiskReportStatus{Entries: entries},
	}
}

func amount(volumes int, gibibytes int64) v1alpha1.StorageMapAmount {
	return v1alpha1.StorageMapAmount{Volumes: volumes, Bytes: gibibytes * gi}
}

func on(node, zone string) v1alpha1.StorageMapPlace {
	return v1alpha1.StorageMapPlace{Node: node, Zone: zone, Nodes: 1}
}

func volume(name, host string) *PV {
	return MakePV(name).Class("local").Capacity("10Gi").Hostname(host)
}

func TestRows(t *testing.T) {
	t.Parallel()
	finalized := func(pv *corev1.PersistentVolume) { pv.Finalizers = []string{wellknown.LocalVolumeFinalizer} }
	two := []snapshot.Object{
		node("a", "z1"), node("b", "z2"),
		volume("v1", "a").Obj(), volume("v2", "a").Capacity("20Gi").Obj(), volume("v3", "b").ClaimRef("ns", "c", "uid").Phase(corev1.VolumeBound).Obj(),
	}
	a := v1alpha1.StorageMapRow{StorageMapPlace: on("a", "z1"), Class: "local", Total: amount(2, 30), Free: amount(2, 30), LargestFreeBytes: 20 * gi}
	b := v1alpha1.StorageMapRow{StorageMapPlace: on("b", "z2"), Class: "local", Total: amount(1, 10), Bound: amount(1, 10)}
	one := func(place v1alpha1.StorageMapPlace, change func(*v1alpha1.StorageMapRow)) []v1alpha1.StorageMapRow {
		row := v1alpha1.StorageMapRow{StorageMapPlace: place, Class: "local", Total: amount(1, 10)}
		change(&row)
		return []v1alpha1.StorageMapRow{row}
	}
	for name, tc := range map[string]struct {
		objects []snapshot.Object
		options Options
		want    []v1alpha1.StorageMapRow
	}{
		"nothing": {want: []v1alpha1.StorageMapRow{}},
		"by node": {objects: two, want: []v1alpha1.StorageMapRow{a, b}},
		"by zone": {objects: two, options: Options{By: ByZone}, want: func() []v1alpha1.StorageMapRow {
			a, b := a, b
			a.Node, b.Node = "", ""
			return []v1alpha1.StorageMapRow{a, b}
		}()},
		"by class": {objects: two, options: Options{By: ByClass}, want: []v1alpha1.StorageMapRow{{
			StorageMapPlace: v1alpha1.StorageMapPlace{Nodes: 2}, Class: "local", Total: amount(3, 40), Free: amount(2, 30), LargestFreeBytes: 20 * gi, Bound: amount(1, 10),
		}}},
		"one node":      {objects: two, options: Options{Node: "b"}, want: []v1alpha1.StorageMapRow{b}},
		"another class": {objects: two, options: Options{Class: "other"}, want: []v1alpha1.StorageMapRow{}},
		"a claimRef without a binding: reserved": {
			objects: []snapshot.Object{node("a", ""), volume("v", "a").ClaimRef("ns", "c", "").Obj()},
			want:    one(on("a", ""), func(r *v1alpha1.StorageMapRow) { r.Reserved = amount(1, 10) }),
		},
		"released with policy Delete: cleaning": {
			objects: []snapshot.Object{node("a", ""), volume("v", "a").ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).Phase(corev1.VolumeReleased).Obj()},
			want:    one(on("a", ""), func(r *v1alpha1.StorageMapRow) { r.Cleaning = amount(1, 10) }),
		},
		"being deleted, with the finalizer: cleaning": {
			objects: []snapshot.Object{node("a", ""), volume("v", "a").Deleting().Change(finalized).Obj()},
			want:    one(on("a", ""), func(r *v1alpha1.StorageMapRow) { r.Cleaning = amount(1, 10) }),
		},
		"released with policy Retain: other": {
			objects: []snapshot.Object{node("a", ""), volume("v", "a").ReclaimPolicy(corev1.PersistentVolumeReclaimRetain).Phase(corev1.VolumeReleased).Obj()},
			want:    one(on("a", ""), func(r *v1alpha1.StorageMapRow) { r.Other = amount(1, 10) }),
		},
		"free, on a failing disk: other, and in trouble": {
			objects: []snapshot.Object{node("a", ""), volume("v", "a").Annotation(wellknown.DiskAnnotation, "Failing").Obj()},
			want:    one(on("a", ""), func(r *v1alpha1.StorageMapRow) { r.Other, r.DisksInTrouble = amount(1, 10), 1 }),
		},
		"a disk in trouble counts once, with its volume": {
			objects: []snapshot.Object{
				node("a", ""), volume("v", "a").ClaimRef("ns", "c", "uid").Phase(corev1.VolumeBound).Annotation(wellknown.DiskAnnotation, "Missing").Obj(),
				report("a", stowage.Entry{Class: "local", Name: "d", State: stowage.EntryMissing, Reason: "Missing", Volume: "v"}),
			},
			want: one(on("a", ""), func(r *v1alpha1.StorageMapRow) { r.Bound, r.DisksInTrouble = amount(1, 10), 1 }),
		},
		"a disk without a volume": {
			objects: []snapshot.Object{node("a", ""), report("a", stowage.Entry{Class: "local", Name: "d", State: stowage.EntrySkipped, Reason: "InUse"})},
			want:    []v1alpha1.StorageMapRow{{StorageMapPlace: on("a", ""), Class: "local", DisksWithoutVolume: 1}},
		},
		"the node is gone": {
			objects: []snapshot.Object{volume("v", "a").Obj()},
			want:    one(v1alpha1.StorageMapPlace{Node: "a", NodeState: v1alpha1.NodeMissing, Nodes: 1}, func(r *v1alpha1.StorageMapRow) { r.Free, r.LargestFreeBytes = amount(1, 10), 10*gi }),
		},
		"the node is not Ready": {
			objects: []snapshot.Object{volume("v", "a").Obj(), MakeNode("a").Hostname("a").Change(func(n *corev1.Node) {
				n.Spec.Unschedulable = true
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
			}).Obj()},
			want: one(v1alpha1.StorageMapPlace{Node: "a", NodeState: v1alpha1.NodeNotReady, Nodes: 1}, func(r *v1alpha1.StorageMapRow) { r.Free, r.LargestFreeBytes = amount(1, 10), 10*gi }),
		},
		"the node is cordoned": {
			objects: []snapshot.Object{volume("v", "a").Obj(), MakeNode("a").Hostname("a").Change(func(n *corev1.Node) { n.Spec.Unschedulable = true }).Obj()},
			want:    one(v1alpha1.StorageMapPlace{Node: "a", NodeState: v1alpha1.NodeCordoned, Nodes: 1}, func(r *v1alpha1.StorageMapRow) { r.Free, r.LargestFreeBytes = amount(1, 10), 10*gi }),
		},
		"a volume of a zone": {
			objects: []snapshot.Object{node("a", "z1"), node("b", "z1"), MakePV("v").Class("local").Capacity("10Gi").Zone("z1").Obj()},
			want:    one(v1alpha1.StorageMapPlace{Zone: "z1", Nodes: 2}, func(r *v1alpha1.StorageMapRow) { r.Free, r.LargestFreeBytes = amount(1, 10), 10*gi }),
		},
		"a volume of a zone, and a node without a hostname": {
			objects: []snapshot.Object{MakeNode("a").Zone("z1").Change(func(n *corev1.Node) { delete(n.Labels, corev1.LabelHostname) }).Obj(), MakePV("v").Class("local").Capacity("10Gi").Zone("z2").Obj()},
			want:    one(v1alpha1.StorageMapPlace{Zone: "z2"}, func(r *v1alpha1.StorageMapRow) { r.Free, r.LargestFreeBytes = amount(1, 10), 10*gi }),
		},
		"two nodes with one hostname": {
			objects: []snapshot.Object{MakeNode("a").Hostname("h").Obj(), MakeNode("b").Hostname("h").Obj(), volume("v", "h").Obj()},
			want:    one(v1alpha1.StorageMapPlace{Nodes: 2}, func(r *v1alpha1.StorageMapRow) { r.Free, r.LargestFreeBytes = amount(1, 10), 10*gi }),
		},
		"a volume without node affinity is no row": {objects: []snapshot.Object{MakePV("v").Class("net").Obj()}, want: []v1alpha1.StorageMapRow{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.options.By == "" {
				tc.options.By = ByNode
			}
			if diff := cmp.Diff(tc.want, Map(snapshot.Build(tc.objects...), tc.options).Rows); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestNetworkVolumes(t *testing.T) {
	t.Parallel()
	got := Map(snapshot.Build(
		MakePV("v1").Class("net").Capacity("10Gi").Obj(), MakePV("v2").Class("net").Capacity("20Gi").ClaimRef("ns", "c", "uid").Phase(corev1.VolumeBound).Obj(),
	), Options{By: ByNode})
	want := []v1alpha1.StorageMapNetwork{{Class: "net", Total: amount(2, 30), Bound: amount(1, 20)}}
	if diff := cmp.Diff(want, got.NetworkVolumes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCapacities(t *testing.T) {
	t.Parallel()
	ten, five := 10*gi, 5*gi
	claim := MakePVC("c").Class("csi").Request("1Gi").SelectedNode("a").Obj()
	for name, tc := range map[string]struct {
		objects []snapshot.Object
		want    []v1alpha1.StorageMapCapacity
	}{
		"of a node, with a claim that is being provisioned": {
			objects: []snapshot.Object{node("a", "z1"), MakeCapacity("x", "csi").Capacity("10Gi").Hostname("a").Obj(), claim},
			want:    []v1alpha1.StorageMapCapacity{{StorageMapPlace: on("a", "z1"), Class: "csi", Bytes: &ten, LargestBytes: &ten, Provisioning: amount(1, 1)}},
		},
		"of a zone": {
			objects: []snapshot.Object{node("a", "z1"), node("b", "z1"), MakeCapacity("x", "csi").Capacity("5Gi").Zone("z1").Obj()},
			want:    []v1alpha1.StorageMapCapacity{{StorageMapPlace: v1alpha1.StorageMapPlace{Zone: "z1", Nodes: 2}, Class: "csi", Bytes: &five, LargestBytes: &five}},
		},
		"of no node": {objects: []snapshot.Object{node("a", "z1"), MakeCapacity("x", "csi").Capacity("5Gi").Hostname("gone").Obj()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Map(snapshot.Build(tc.objects...), Options{By: ByNode}).Capacities); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWaitingPods(t *testing.T) {
	t.Parallel()
	unschedulable := func(message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
		}
	}
	const full = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."
	pending, bound := MakePVC("c").Class("local").Request("1Gi").Obj(), MakePVC("c").Class("local").Bound("v").Obj()
	waits := func(message string, claims ...v1alpha1.WaitingClaim) []v1alpha1.WaitingPod {
		return []v1alpha1.WaitingPod{{Namespace: pending.Namespace, Name: "p", Claims: claims, Message: message}}
	}
	for name, tc := range map[string]struct {
		objects []snapshot.Object
		options Options
		want    []v1alpha1.WaitingPod
	}{
		"a claim is not bound": {
			objects: []snapshot.Object{MakePod("p").PVC("c").Change(unschedulable(full)).Obj(), pending},
			want:    waits(full, v1alpha1.WaitingClaim{Name: "c", Class: "local", Bytes: gi}),
		},
		"a claim does not exist": {
			objects: []snapshot.Object{MakePod("p").PVC("c").Obj()},
			want:    waits("", v1alpha1.WaitingClaim{Name: "c", Missing: true}),
		},
		"a bound claim, and the node of its volume is not possible": {
			objects: []snapshot.Object{MakePod("p").PVC("c").Change(unschedulable("0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.")).Obj(), bound},
			want:    waits("0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."),
		},
		"CPU is missing":         {objects: []snapshot.Object{MakePod("p").PVC("c").Change(unschedulable("0/2 nodes are available: 2 Insufficient cpu.")).Obj(), bound}},
		"the pod has a node":     {objects: []snapshot.Object{MakePod("p").PVC("c").Node("a").Obj(), pending}},
		"the pod has no claims":  {objects: []snapshot.Object{MakePod("p").Change(unschedulable(full)).Obj()}},
		"of another namespace":   {objects: []snapshot.Object{MakePod("p").PVC("c").Obj(), pending}, options: Options{Namespace: "other"}},
		"of another class":       {objects: []snapshot.Object{MakePod("p").PVC("c").Obj(), pending}, options: Options{Class: "other"}},
		"the pod is being ended": {objects: []snapshot.Object{MakePod("p").PVC("c").Deleting().Obj(), pending}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Map(snapshot.Build(tc.objects...), tc.options).WaitingPods
			for i := range got {
				got[i].Since = metav1.Time{}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDisks(t *testing.T) {
	t.Parallel()
	got := Map(snapshot.Build(
		node("a", ""), MakePod("p").PVC("c").Node("a").Obj(), MakePVC("c").Bound("v1").Obj(),
		volume("v1", "a").ClaimRef(MakePVC("c").Obj().Namespace, "c", "uid").Phase(corev1.VolumeBound).Obj(),
		volume("v2", "a").Source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/x"}}).Obj(),
		report("a", stowage.Entry{Class: "local", Name: "d", Path: "/mnt/d", State: stowage.EntryBound, Volume: "v1", Bytes: 11 * gi, Identity: "wwn:1"}),
	), Options{By: ByNode}).Disks
	claim := MakePVC("c").Obj().Namespace + "/c"
	want := []v1alpha1.StorageMapDisk{
		{Node: "a", Class: "local", Name: "d", Path: "/mnt/d", Bytes: 11 * gi, Identity: "wwn:1", State: "Bound", Use: v1alpha1.UseBound, Volume: "v1", Claim: claim, Pods: []string{MakePod("p").Obj().Namespace + "/p"}},
		{Node: "a", Class: "local", Path: "/mnt/x", Bytes: 10 * gi, State: "Available", Use: v1alpha1.UseFree, Volume: "v2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUse(t *testing.T) {
	t.Parallel()
	marked := func(mark string) *corev1.PersistentVolume {
		return volume("v", "a").Annotation(wellknown.DiskAnnotation, mark).Obj()
	}
	bound := volume("v", "a").ClaimRef("ns", "c", "uid").Phase(corev1.VolumeBound)
	for name, tc := range map[string]struct {
		state stowage.EntryState
		pv    *corev1.PersistentVolume
		want  v1alpha1.StorageMapUse
	}{
		"a free volume without a report":                {pv: volume("v", "a").Obj(), want: v1alpha1.UseFree},
		"a bound volume without a report":               {pv: bound.Obj(), want: v1alpha1.UseBound},
		"a volume whose disk is marked missing":         {pv: marked("Missing"), want: v1alpha1.UseMissing},
		"a volume whose disk is marked replaced":        {pv: marked("Replaced"), want: v1alpha1.UseReplaced},
		"a volume whose disk is marked failing":         {pv: marked("Failing"), want: v1alpha1.UseFailing},
		"a volume whose disk is marked unproven":        {pv: marked("Unproven"), want: v1alpha1.UseOther},
		"a volume that the PV controller does not know": {pv: volume("v", "a").Phase(corev1.VolumePending).Obj(), want: v1alpha1.UseOther},
		"the volume is newer than the report":           {state: stowage.EntryAvailable, pv: volume("v", "a").ClaimRef("ns", "c", "").Obj(), want: v1alpha1.UseReserved},
		"trouble comes before a claim":                  {state: stowage.EntryFailing, pv: bound.Obj(), want: v1alpha1.UseFailing},
		"the disk is missing":                           {state: stowage.EntryMissing, pv: bound.Obj(), want: v1alpha1.UseMissing},
		"the disk is replaced":                          {state: stowage.EntryReplaced, pv: bound.Obj(), want: v1alpha1.UseReplaced},
		"the disk is unproven":                          {state: stowage.EntryUnproven, pv: bound.Obj(), want: v1alpha1.UseOther},
		"the data is retained, without a volume":        {state: stowage.EntryRetained, want: v1alpha1.UseOther},
		"the volume has failed":                         {state: stowage.EntryFailed, pv: volume("v", "a").Phase(corev1.VolumeFailed).Obj(), want: v1alpha1.UseOther},
		"skipped":                                       {state: stowage.EntrySkipped, want: v1alpha1.UseNotPublished},
		"not published yet":                             {state: stowage.EntryPending, want: v1alpha1.UseNotPublished},
		"cleaned after the volume is deleted":           {state: stowage.EntryCleaning, want: v1alpha1.UseCleaning},
		"released, and the volume was not read":         {state: stowage.EntryReleased, want: v1alpha1.UseCleaning},
		"bound, and the volume was not read":            {state: stowage.EntryBound, want: v1alpha1.UseBound},
		"free, and the volume was not read":             {state: stowage.EntryAvailable, want: v1alpha1.UseFree},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := useOf(tc.state, tc.pv); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestClasses: the sums are those of the map by class.
func TestClasses(t *testing.T) {
	t.Parallel()
	s := snapshot.Build(
		node("a", "z1"), node("b", "z2"), volume("v1", "a").Obj(), volume("v2", "b").Capacity("20Gi").Obj(), volume("v3", "b").Class("other").Obj(),
		MakePV("zonal").Class("local").Capacity("1Gi").Zone("z1").Obj(), volume("v4", "gone").ClaimRef("ns", "c", "uid").Phase(corev1.VolumeBound).Obj(),
		report("a", stowage.Entry{Class: "local", Name: "d", State: stowage.EntryFailing, Volume: "v1"}, stowage.Entry{Class: "empty", Name: "e", State: stowage.EntrySkipped}),
		MakeCapacity("x", "csi").Capacity("10Gi").Hostname("a").Obj(), MakeCapacity("y", "csi").Capacity("5Gi").Hostname("b").Obj(),
		MakePVC("c").Class("csi").Request("1Gi").SelectedNode("a").Obj(),
	)
	want := Map(s, Options{By: ByClass})
	rows, capacities := Classes(Map(s, Options{By: ByNode}))
	if diff := cmp.Diff(want.Rows, rows); diff != "" || len(rows) != 3 {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Capacities, capacities); diff != "" || len(capacities) != 1 {
		t.Errorf("capacities (-want +got):\n%s", diff)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	cordoned := MakeNode("c").Change(func(n *corev1.Node) { n.Spec.Unschedulable = true }).Obj()
	disks := []v1alpha1.StorageMapDisk{{Node: "a"}, {Node: "gone"}, {Node: "gone"}}
	unseen := snapshot.Build()
	unseen.Gaps = []snapshot.Gap{{Resource: "nodes", Reason: "forbidden"}}
	gone := on("gone", "")
	missing := gone
	missing.NodeState = v1alpha1.NodeMissing
	for name, tc := range map[string]struct {
		snapshot *snapshot.Snapshot
		want     []v1alpha1.StorageMapPlace
	}{
		"with and without disks": {snapshot.Build(node("a", "z1"), cordoned), []v1alpha1.StorageMapPlace{on("a", "z1"), {Node: "c", Nodes: 1, NodeState: v1alpha1.NodeCordoned}, missing}},
		"nodes cannot be listed": {unseen, []v1alpha1.StorageMapPlace{on("a", ""), gone}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Nodes(tc.snapshot, disks)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// large makes a cluster of nodes with ten volumes each, nine of them with a report, and six pods per node.
func large(nodes int) *snapshot.Snapshot {
	var objects []snapshot.Object
	for n := range nodes {
		name := fmt.Sprintf("node-%04d", n)
		objects = append(objects, node(name, fmt.Sprintf("zone-%d", n%3)))
		var entries []stowage.Entry
		for v := range 10 {
			pv := volume(fmt.Sprintf("pv-%04d-%d", n, v), name)
			claim := fmt.Sprintf("claim-%04d-%d", n, v)
			if v < 6 {
				pv.ClaimRef("default", claim, "uid").Phase(corev1.VolumeBound)
				objects = append(objects, MakePVC(claim).Namespace("default").Bound(pv.Obj().Name).Obj(), MakePod("pod-"+claim).Namespace("default").PVC(claim).Node(name).Obj())
			}
			objects = append(objects, pv.Obj())
			if v > 0 {
				entries = append(entries, stowage.Entry{Class: "local", Name: fmt.Sprint("d", v), Path: fmt.Sprint("/mnt/d", v), State: stowage.EntryAvailable, Volume: pv.Obj().Name})
			}
		}
		objects = append(objects, report(name, entries...))
	}
	return snapshot.Build(objects...)
}

// BenchmarkMap: 5,000 nodes, 50,000 volumes, 30,000 claims and pods.
func BenchmarkMap(b *testing.B) {
	s := large(5000)
	b.ReportAllocs()
	for b.Loop() {
		Map(s, Options{By: ByNode})
	}
}
