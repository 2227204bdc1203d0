// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/inspect/guide"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/testing/builders"
)

// TestNextSteps: each reason has a step that the reader can do, and a section of the documentation.
func TestNextSteps(t *testing.T) {
	t.Parallel()
	reasons := guide.All()[guide.Reasons]
	if len(reasons) < 40 {
		t.Fatalf("%d reasons", len(reasons))
	}
	for _, reason := range reasons {
		if nextSteps[disk.Reason(reason)] == "" && !strings.HasPrefix(reason, "Cannot") {
			t.Errorf("%s has no next step", reason)
		}
	}
	for reason := range nextSteps {
		if guide.Link(string(reason), guide.Reasons) == "" {
			t.Errorf("%s has no section", reason)
		}
	}
	for _, state := range stowage.EntryStates() {
		if stateMeans[state] == "" {
			t.Errorf("state %s has no explanation", state)
		}
	}
}

var (
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hours = func(n int) *metav1.Time { return &metav1.Time{Time: now.Add(-time.Duration(n) * time.Hour)} }
)

const ns = builders.DefaultNamespace

func localReport(node string, entries ...stowage.Entry) *stowage.LocalDiskReport {
	return &stowage.LocalDiskReport{
		ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: stowage.LocalDiskReportSpec{NodeName: node, Page: 1}, Status: stowage.LocalDiskReportStatus{Entries: entries},
	}
}

func localVolume(name string) *builders.PV {
	return builders.MakePV(name).Class("local").Capacity("10Gi").Hostname("n").Change(func(pv *corev1.PersistentVolume) {
		pv.Finalizers = []string{wellknown.LocalVolumeFinalizer}
	})
}

// TestWaitsFor: what is waited for, and a part of the sentences.
func TestWaitsFor(t *testing.T) {
	t.Parallel()
	node, class := builders.MakeNode("n").Hostname("n").Obj(), builders.MakeClass("local").Provisioner(noProvisioner).Obj()
	claim := func() *builders.PVC { return builders.MakePVC("c").Class("local").Request("10Gi").UID("uid") }
	bound := localVolume("v").ClaimRef(ns, "c", "uid").Phase(corev1.VolumeBound)
	for name, tc := range map[string]struct {
		kind, name string
		objects    []snapshot.Object
		want       *v1alpha1.Wait
		says       string
	}{
		"claim without a pod":          {KindClaim, "c", []snapshot.Object{class, claim().Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitConsumer}, "No pod uses it."},
		"claim with a pod":             {KindClaim, "c", []snapshot.Object{class, claim().Obj(), builders.MakePod("p").PVC("c").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitScheduler, Name: "p"}, "No volume of the class is free."},
		"claim that is bound now":      {KindClaim, "c", []snapshot.Object{class, claim().Annotation(wellknown.BindAnnotation, "Now").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitController}, "stowage-controller binds it without a pod"},
		"claim bound now, with a pod":  {KindClaim, "c", []snapshot.Object{class, claim().Annotation(wellknown.BindAnnotation, "Now").Obj(), builders.MakePod("p").PVC("c").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitScheduler, Name: "p"}, "the scheduler chooses"},
		"claim and a free volume":      {KindClaim, "c", []snapshot.Object{class, claim().Obj(), localVolume("v").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitConsumer}, "1, of which 1 can serve it."},
		"claim and a small volume":     {KindClaim, "c", []snapshot.Object{class, claim().Request("11Gi").Obj(), localVolume("v").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitConsumer}, "none is large enough: the largest has 10Gi."},
		"claim and a volume of a mode": {KindClaim, "c", []snapshot.Object{class, claim().Obj(), localVolume("v").Block().Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitConsumer}, "none has the modes and labels"},
		"claim of an unknown class":    {KindClaim, "c", []snapshot.Object{claim().Class("lokal").Obj(), class}, &v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Name: "lokal"}, "There is no StorageClass lokal, similar: local."},
		"claim of an immediate class": {
			KindClaim, "c", []snapshot.Object{claim().Obj(), builders.MakeClass("local").Provisioner(noProvisioner).Immediate().Obj()},
			&v1alpha1.Wait{For: v1alpha1.WaitPVController}, "need volumeBindingMode WaitForFirstConsumer",
		},
		"claim with a reserved volume": {KindClaim, "c", []snapshot.Object{class, claim().Obj(), localVolume("v").ClaimRef(ns, "c", "").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitPVController, Name: "v"}, "reserved for it"},
		"claim with a reserved volume that is too small": {
			KindClaim, "c", []snapshot.Object{class, claim().Request("20Gi").Obj(), localVolume("v").ClaimRef(ns, "c", "").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Name: "v"}, "does not fit",
		},
		"claim that names a volume of another claim": {
			KindClaim, "c", []snapshot.Object{class, claim().VolumeName("v").Obj(), localVolume("v").ClaimRef(ns, "other", "x").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Name: "v"}, "belongs to claim " + ns + "/other",
		},
		"claim that is being provisioned": {
			KindClaim, "c", []snapshot.Object{builders.MakeClass("local").Provisioner("csi.example.com").Obj(), node, claim().SelectedNode("n").Obj()},
			&v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: "csi.example.com"}, "on node n, which the scheduler selected",
		},
		"claim whose volume is gone":   {KindClaim, "c", []snapshot.Object{class, claim().Bound("v").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitPVController}, "does not exist: the PV controller marks the claim Lost."},
		"claim that is Lost":           {KindClaim, "c", []snapshot.Object{class, claim().VolumeName("v").Phase(corev1.ClaimLost).Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitAdministrator}, "was deleted"},
		"claim in order":               {KindClaim, "c", []snapshot.Object{class, node, claim().Bound("v").Obj(), bound.Obj()}, nil, "The claim is in order. No pod uses it."},
		"claim on a node that is gone": {KindClaim, "c", []snapshot.Object{class, claim().Bound("v").Obj(), bound.Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitNode, Name: "n"}, "Node n does not exist."},
		"claim being deleted, with a pod": {
			KindClaim, "c", []snapshot.Object{class, node, claim().Bound("v").Deleting().Obj(), bound.Obj(), builders.MakePod("p").PVC("c").Node("n").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitPods, Name: "p"}, "It stays while pod p uses it.",
		},
		"volume that is free":                             {KindVolume, "v", []snapshot.Object{node, localVolume("v").Obj()}, nil, "It is free"},
		"volume of a claim gone":                          {KindVolume, "v", []snapshot.Object{node, bound.Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitPVController}, "does not exist any more"},
		"volume reserved for a claim that does not exist": {KindVolume, "v", []snapshot.Object{node, localVolume("v").ClaimRef(ns, "c", "").Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitAdministrator, Name: ns + "/c"}, "There is no such claim."},
		"volume released": {
			KindVolume, "v", []snapshot.Object{node, localVolume("v").ClaimRef(ns, "c", "x").ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).Phase(corev1.VolumeReleased).Obj()},
			&v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: "stowage-provisioner on n", Step: stepVerify, Steps: allSteps}, "step 1 of 4",
		},
		"volume released, and in use": {
			KindVolume, "v", []snapshot.Object{
				node, localVolume("v").ClaimRef(ns, "c", "x").ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).Phase(corev1.VolumeReleased).Obj(),
				localReport("n", stowage.Entry{Class: "local", Name: "d", Volume: "v", State: stowage.EntryReleased, Reason: "VolumeInUse", Message: "mounted at /x"}),
			},
			&v1alpha1.Wait{For: v1alpha1.WaitDiskUser, Name: "n", Reason: "VolumeInUse", Step: stepVerify, Steps: allSteps}, "mounted at /x",
		},
		"volume retained": {
			KindVolume, "v", []snapshot.Object{node, localVolume("v").ClaimRef(ns, "c", "x").ReclaimPolicy(corev1.PersistentVolumeReclaimRetain).Phase(corev1.VolumeReleased).Obj()},
			&v1alpha1.Wait{For: v1alpha1.WaitAdministrator}, "Its policy is Retain",
		},
		"volume being cleaned": {
			KindVolume, "v", []snapshot.Object{node, localVolume("v").Phase(corev1.VolumeReleased).Deleting().Obj(), localReport("n", stowage.Entry{
				Class: "local", Name: "d", Volume: "v", State: stowage.EntryCleaning, Cleaning: &stowage.Cleaning{Method: "zero", StartTime: hours(1), DoneBytes: 1 << 30, TotalBytes: 4 << 30, Attempts: 2, LastError: "EIO"},
			})},
			&v1alpha1.Wait{For: v1alpha1.WaitCleaning, Name: "n", Step: stepClean, Steps: allSteps, DoneBytes: 1 << 30, TotalBytes: 4 << 30}, "1Gi of 4Gi (25%), at this rate about 3h more. The last attempt failed: EIO.",
		},
		"volume whose clean waits for a Job": {
			KindVolume, "v", []snapshot.Object{node, localVolume("v").Phase(corev1.VolumeReleased).Deleting().Obj(), func() *stowage.LocalDiskReport {
				r := localReport("n", stowage.Entry{
					Class: "local", Name: "d", Path: "/d", Volume: "v", State: stowage.EntryCleaning, Reason: "CleaningJobWaiting", Message: "no Job yet",
					Cleaning: &stowage.Cleaning{Request: &stowage.CleaningRequest{Attempt: "1"}},
				})
				r.Status.Jobs = []stowage.CleaningJob{{Path: "/d", Attempt: "1", State: stowage.CleaningJobWaiting, Reason: "NoImage", Message: "no image is configured"}}
				return r
			}()},
			&v1alpha1.Wait{For: v1alpha1.WaitController, Name: "n", Reason: "CleaningJobWaiting", Step: stepClean, Steps: allSteps}, "NoImage: no image is configured.",
		},
		"volume of a lost node, kept": {
			KindVolume, "v", []snapshot.Object{claim().Bound("v").Obj(), class, localVolume("v").ClaimRef(ns, "c", "uid").Phase(corev1.VolumeBound).Annotation(wellknown.LostAnnotation, "NodeGone 2026-03-01T11:00:00Z").Obj()},
			&v1alpha1.Wait{For: v1alpha1.WaitNode, Name: "n", Reason: "NodeGone"}, "The claim is kept",
		},
		"disk that the node uses": {
			KindDisk, "n/d", []snapshot.Object{node, localReport("n", stowage.Entry{Class: "local", Name: "d", State: stowage.EntrySkipped, Reason: "InUse", Message: "swap", Since: hours(2)})},
			&v1alpha1.Wait{For: v1alpha1.WaitDiskUser, Name: "n", Reason: "InUse"}, "Skipped (for 120m): it has no volume. InUse: swap.",
		},
		"disk without a pending reason": {
			KindDisk, "n/local/d", []snapshot.Object{node, localReport("n", stowage.Entry{Class: "local", Name: "d", State: stowage.EntryPending})}, &v1alpha1.Wait{For: v1alpha1.WaitProvisioner, Name: "stowage-provisioner on n"}, "no volume yet",
		},
		"node without a report": {KindNode, "n", []snapshot.Object{node}, nil, "no provisioner has run there"},
		"node that is gone":     {KindNode, "n", []snapshot.Object{bound.Obj()}, &v1alpha1.Wait{For: v1alpha1.WaitNode, Name: "n"}, "does not exist, and has 1 volume."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := snapshot.Build(tc.objects...)
			s.Time = now
			namespace := ""
			if tc.kind == KindClaim {
				namespace = ns
			}
			got, err := Storage(StorageQuestion{Snapshot: s, Kind: tc.kind, Namespace: namespace, Name: tc.name})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.WaitsFor, cmpopts.IgnoreFields(v1alpha1.Wait{}, "Text")); diff != "" {
				t.Errorf("waits for (-want +got):\n%s", diff)
			}
			if got.WaitsFor != nil && got.WaitsFor.Text != waitText(got.WaitsFor) {
				t.Errorf("waits for %q, want %q", got.WaitsFor.Text, waitText(got.WaitsFor))
			}
			if text := strings.Join(got.Sentences, " "); !strings.Contains(text, tc.says) {
				t.Errorf("says %q, want %q", text, tc.says)
			}
		})
	}
}

// TestNamespace: commands name the namespace in which provisioners run, else that of the manifests.
func TestNamespace(t *testing.T) {
	t.Parallel()
	pod := builders.MakePod("p").Namespace("storage").Label("app.kubernetes.io/name", "stowage-provisioner").Obj()
	for want, objects := range map[string][]snapshot.Object{"stowage-system": {}, "storage": {pod}} {
		got, err := Storage(StorageQuestion{Snapshot: snapshot.Build(append(objects, builders.MakeNode("n").Obj())...), Kind: KindNode, Name: "n"})
		if err != nil {
			t.Fatal(err)
		}
		if steps := strings.Join(got.Next, "; "); !strings.Contains(steps, "kubectl -n "+want+" get pods") {
			t.Errorf("next steps %q, want one in namespace %s", steps, want)
		}
	}
}

func TestWaitText(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]v1alpha1.Wait{
		"a pod that uses it":                                                {For: v1alpha1.WaitConsumer},
		"the scheduler, to place pod a/b":                                   {For: v1alpha1.WaitScheduler, Name: "a/b"},
		"stowage-provisioner on n, step 1 of 4 (TimedOut)":                  {For: v1alpha1.WaitProvisioner, Name: "stowage-provisioner on n", Reason: "TimedOut", Step: 1, Steps: 4},
		"node n, until 2026-03-01 19:00:00 UTC":                             {For: v1alpha1.WaitNode, Name: "n", Until: hours(-7)},
		"the removal of data on n, next attempt at 2026-03-01 19:00:00 UTC": {For: v1alpha1.WaitCleaning, Name: "n", Until: hours(-7)},
	} {
		if got := waitText(&w); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestUnknown: one line says what to try instead.
func TestUnknown(t *testing.T) {
	t.Parallel()
	s := snapshot.Build(
		builders.MakeNode("node-a").Obj(), builders.MakePVC("data").Namespace("x").Obj(), builders.MakePVC("data-1").Namespace("y").Obj(), localVolume("pv-1").Obj(),
		localReport("node-a", stowage.Entry{Class: "c1", Name: "d"}, stowage.Entry{Class: "c2", Name: "d"}),
	)
	for want, q := range map[string]StorageQuestion{
		`there is no claim "data" in namespace y; there is one in namespace x: add -n x`:               {Kind: KindClaim, Namespace: "y", Name: "data"},
		`there is no claim "data-2" in namespace y; similar: data-1`:                                   {Kind: KindClaim, Namespace: "y", Name: "data-2"},
		`there is no claim "foo" in namespace y; -n selects another namespace`:                         {Kind: KindClaim, Namespace: "y", Name: "foo"},
		`there is no volume "pv-2"; similar: pv-1`:                                                     {Kind: KindVolume, Name: "pv-2"},
		`there is no node "node-b"; similar: node-a`:                                                   {Kind: KindNode, Name: "node-b"},
		`there is no disk "node-a/e"; node node-a has d`:                                               {Kind: KindDisk, Name: "node-a/e"},
		`node node-a has 2 disks of the name "d": use node-a/c1/d or node-a/c2/d`:                      {Kind: KindDisk, Name: "node-a/d"},
		`there is no disk "node-b/d"; there is no report with disks of node "node-b", similar: node-a`: {Kind: KindDisk, Name: "node-b/d"},
	} {
		q.Snapshot = s
		if _, err := Storage(q); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestUnseen: an answer that lacks volumes does not count them.
func TestUnseen(t *testing.T) {
	t.Parallel()
	s := snapshot.Build(builders.MakePVC("c").Class("local").Obj(), builders.MakeClass("local").Obj())
	s.Gaps = []snapshot.Gap{{Resource: "persistentvolumes", Reason: "forbidden"}, {Resource: "secrets", Reason: "forbidden"}}
	got, err := Storage(StorageQuestion{Snapshot: s, Kind: KindClaim, Namespace: ns, Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"persistentvolumes"}, got.Unseen); diff != "" {
		t.Errorf("unseen (-want +got):\n%s", diff)
	}
	if text := strings.Join(got.Sentences, " "); !strings.Contains(text, "whether one fits is not known") {
		t.Errorf("says %q", text)
	}
}

// TestEvents: the newest first, of the subject and of related objects only, each with its section.
func TestEvents(t *testing.T) {
	t.Parallel()
	event := func(kind, namespace, name, reason string, at *metav1.Time) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: reason}, InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name},
			Reason: reason, Type: "Warning", LastTimestamp: *at, Source: corev1.EventSource{Component: "x"},
		}
	}
	s := snapshot.Build(
		builders.MakePVC("c").Class("local").Bound("v").UID("uid").Obj(), localVolume("v").ClaimRef(ns, "c", "uid").Phase(corev1.VolumeBound).Obj(),
		event(KindClaim, ns, "c", "VolumeLost", hours(2)), event(KindVolume, "default", "v", "IOError", hours(1)), event(KindClaim, ns, "other", "Lost", hours(1)),
	)
	got, err := Storage(StorageQuestion{Snapshot: s, Events: s, Kind: KindClaim, Namespace: ns, Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	want := []v1alpha1.EventLine{
		{Object: v1alpha1.Reference{Kind: KindVolume, Name: "v"}, Last: *hours(1), Count: 1, Type: "Warning", Reason: "IOError", From: "x", Link: guide.Reasons.Link()},
		{Object: v1alpha1.Reference{Kind: KindClaim, Namespace: ns, Name: "c"}, Last: *hours(2), Count: 1, Type: "Warning", Reason: "VolumeLost", From: "x", Link: guide.ControllerEvents.Link()},
	}
	if diff := cmp.Diff(want, got.Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
