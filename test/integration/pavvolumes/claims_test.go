// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/test/integration/fixture"
)

// inClaimNamespace is withPods whose helper pods run in the namespace of the claim.
var inClaimNamespace = strings.NewReplacer(
	"  volumeCreation:\n    podTemplate: {", "  podNamespaces: {claim: true}\n  volumeCreation:\n    podTemplate: {metadata: {namespace: \"{{ pvc.metadata.namespace }}\"}, ",
	"  volumeDeletion:\n    podTemplate: {", "  volumeDeletion:\n    podTemplate: {metadata: {namespace: \"{{ pvc.metadata.namespace }}\"}, ",
).Replace(withPods)

// patchSpec changes the spec of the Env's provisioner by a JSON merge patch.
func patchSpec(e *fixture.Env, patch string) {
	e.T.Helper()
	fixture.Get(e, func(ctx context.Context) (*stowage.PavProvisioner, error) {
		return clients.Provisioners.Patch(ctx, e.Namespace, types.MergePatchType, []byte(`{"spec":`+patch+`}`), metav1.PatchOptions{})
	})
}

// useLatest has a volume deleted by the current spec of its provisioner.
func useLatest(e *fixture.Env, name string) {
	e.T.Helper()
	fixture.Get(e, func(ctx context.Context) (*stowage.PavVolume, error) {
		return clients.Volumes.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"useRevision":"Latest"}}`), metav1.PatchOptions{})
	})
}

// A claim that is deleted while a helper pod runs ends the attempt, which is reverted if the volume
// may exist. A claim that is created under its name meanwhile gets a volume of its own.
func TestClaimRecreated(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	rows := map[string]helperpod.Step{"in validation": helperpod.Validation, "in creation": helperpod.Creation}
	var hold atomic.Bool
	hold.Store(true)
	deletions := make(chan string, 100)
	text := strings.Replace(withValidation, "  volumeDeletion:\n    podTemplate: {spec: {containers: [{name: main, image: i}]}}",
		"  volumeDeletion:\n    podTemplate: {spec: {containers: [{name: main, image: i, args: [\"{{ pvc.metadata.uid }}\"]}]}}", 1)
	provide(e, text, corev1.PersistentVolumeReclaimDelete, func(claim string, step helperpod.Step, _ int) outcome {
		for name, held := range rows {
			if claim == claimName(name) && step == held && hold.Load() {
				return runs
			}
		}
		if step == helperpod.Deletion {
			deletions <- claim
		}
		return exit(report.Report{Handle: new("later-" + claim), Capacity: new("1Gi")}, 0)
	})
	same := func(*corev1.PersistentVolumeClaim, helperpod.Step) {}
	first := claims(e, rows, same)
	for name, claim := range first {
		running(e, claim)
		e.DeletePVC(claim.Name)
		gone(e, e.Client.CoreV1().PersistentVolumeClaims(e.Namespace), &corev1.PersistentVolumeClaim{}, claimName(name))
	}
	hold.Store(false)
	second := claims(e, rows, same)
	for _, claim := range first {
		e.WaitEvent("default", rules.VolumeName(claim.UID), string(rules.Abandoned))
		gone(e, clients.Volumes, &stowage.PavVolume{}, rules.VolumeName(claim.UID))
	}
	completed(e, second)
	got := map[string]int{}
	for len(deletions) > 0 {
		got[<-deletions]++
	}
	want := map[string]int{string(first["in creation"].UID): 1, string(second["in validation"].UID): 1, string(second["in creation"].UID): 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deletion pods by claim (-want +got):\n%s", diff)
	}
}

// Helper pods do not keep a namespace that is deleted. What they left is deleted once the provisioner
// does that elsewhere.
func TestNamespaceDeleted(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, inClaimNamespace, corev1.PersistentVolumeReclaimDelete, func(_ string, step helperpod.Step, _ int) outcome {
		if step == helperpod.Creation {
			return runs
		}
		return exit(report.Report{}, 0)
	})
	namespaces, other := e.Client.CoreV1().Namespaces(), e.Name("gone")
	fixture.Get(e, func(ctx context.Context) (*corev1.Namespace, error) {
		return namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}, metav1.CreateOptions{})
	})
	claim := fixture.Get(e, func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return e.Client.CoreV1().PersistentVolumeClaims(other).Create(ctx, e.PVC("c").Namespace(other).Class(e.Name("made")).Obj(), metav1.CreateOptions{})
	})
	pod := runningIn(e, other, claim)
	e.Do(func(ctx context.Context) error { return namespaces.Delete(ctx, other, metav1.DeleteOptions{}) })
	gone(e, e.Client.CoreV1().Pods(other), &corev1.Pod{}, pod.Name)
	name := rules.VolumeName(claim.UID)
	seen(e, clients.Volumes, name, func(v *stowage.PavVolume) bool { // events cannot be created there
		last := v.Status.LastError
		return last != nil && last.Reason == string(rules.DeletionFailed) && strings.Contains(last.Message, "because it is being terminated")
	})
	patchSpec(e, `{"volumeDeletion":{"podTemplate":{"metadata":null}}}`)
	accepted(e, 2)
	useLatest(e, name)
	gone(e, clients.Volumes, &stowage.PavVolume{}, name)
}

// Each attempt takes the class as it is then. Without one, the next attempt waits.
func TestClassRecreated(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withPods, corev1.PersistentVolumeReclaimDelete, func(_ string, step helperpod.Step, number int) outcome {
		if step == helperpod.Creation && number == 1 {
			return runs
		}
		return exit(report.Report{Capacity: new("1Gi")}, 0)
	})
	claim := e.CreatePVC(e.PVC("c").Class(e.Name("made")))
	pod := running(e, claim)
	e.Do(func(ctx context.Context) error {
		return e.Client.StorageV1().StorageClasses().Delete(ctx, e.Name("made"), metav1.DeleteOptions{})
	})
	e.Do(func(ctx context.Context) error { return evict(ctx, e, pod) })
	e.WaitEvent(e.Namespace, "c", string(rules.ClassUnsuitable), "does not exist")
	e.CreateClass(e.Class("made").Provisioner(e.Namespace).Immediate().Change(func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"pool": "other"} }))
	volume := boundTo(e, claim)
	if diff := cmp.Diff(map[string]string{"pool": "other"}, persistentVolume(e, volume.Name).Spec.CSI.VolumeAttributes); diff != "" {
		t.Errorf("attributes of the PersistentVolume (-want +got):\n%s", diff)
	}
	removed(e, claim)
}

// A PersistentVolume that has the name of a volume to be made holds it up, as does one, or a volume
// that is being made, with its handle.
func TestNamesInUse(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withPods, corev1.PersistentVolumeReclaimDelete, func(claim string, step helperpod.Step, number int) outcome {
		handle := "later-" + claim
		if number == 1 && (claim == "first" || claim == "second") {
			handle = "same"
		}
		if number == 1 && claim == "static" {
			handle = "static"
		}
		return exit(report.Report{Handle: &handle, Capacity: new("1Gi")}, 0)
	})
	e.CreateClass(e.Class("late").Provisioner(e.Namespace))
	named := e.CreatePVC(e.PVC("named").Class(e.Name("late")))
	foreign := e.PV("static").Class("").CSI(e.Namespace, "static").ReclaimPolicy(corev1.PersistentVolumeReclaimRetain)
	e.CreatePVsUnseen(foreign, e.PV("x").Name(rules.VolumeName(named.UID)).Class("").ReclaimPolicy(corev1.PersistentVolumeReclaimRetain))
	e.PatchPVC("named", map[string]any{"metadata": map[string]any{"annotations": map[string]any{rules.AnnSelectedNode: nodeName}}})
	first := e.CreatePVC(e.PVC("first").Class(e.Name("made")))
	boundTo(e, first)
	all := map[string]*corev1.PersistentVolumeClaim{"named": named}
	for _, name := range []string{"second", "static"} {
		all[name] = e.CreatePVC(e.PVC(name).Class(e.Name("made")))
	}
	e.WaitEvent(e.Namespace, "named", string(rules.NameInUse), rules.VolumeName(named.UID))
	e.WaitEvent(e.Namespace, "second", string(rules.HandleInUse), rules.VolumeName(first.UID))
	e.WaitEvent(e.Namespace, "static", string(rules.HandleInUse), e.Name("static"))
	pvs := e.Client.CoreV1().PersistentVolumes()
	for _, name := range []string{e.Name("static"), rules.VolumeName(named.UID)} {
		e.Do(func(ctx context.Context) error { return pvs.Delete(ctx, name, metav1.DeleteOptions{}) })
	}
	removed(e, first)
	completed(e, all)
}

// forge creates pods as another client: copies of a helper pod of a volume, for later steps.
func forge(e *fixture.Env, pod *corev1.Pod, names []string) {
	e.T.Helper()
	for _, name := range names {
		forged := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, Labels: pod.Labels, OwnerReferences: pod.OwnerReferences},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i", Args: []string{"forged"}}}},
		}
		fixture.Get(e, func(ctx context.Context) (*corev1.Pod, error) {
			return e.Client.CoreV1().Pods(pod.Namespace).Create(ctx, forged, metav1.CreateOptions{})
		})
	}
}

// A pod that another client creates under the name of a later helper pod counts only if it must be
// the controller's: in the provisioner namespace, with the volume as its owner. Its answer to the
// creation was lost then.
func TestForgedPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"in the namespace of the claim":           {inClaimNamespace, "later-c"},
		"in the provisioner namespace, and owned": {withPods, "later-forged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			provide(e, tc.text, corev1.PersistentVolumeReclaimDelete, func(claim string, step helperpod.Step, number int) outcome {
				if claim == "c" && step == helperpod.Creation && number == 1 {
					return runs
				}
				return exit(report.Report{Handle: new("later-" + claim), Capacity: new("1Gi")}, 0)
			})
			claim := e.CreatePVC(e.PVC("c").Class(e.Name("made")))
			where := namespace
			if tc.text == inClaimNamespace {
				where = e.Namespace
			}
			pod := runningIn(e, where, claim)
			uid := pod.OwnerReferences[0].UID
			var names []string
			for attempt := range int64(3) { // creation is attempt 3 if the deletion, attempt 2, succeeds, and 4 if it is repeated
				names = append(names, helperpod.Name(helperpod.Creation, uid, 2+attempt))
			}
			forge(e, pod, append(names, helperpod.Name(helperpod.Deletion, uid, 2)))
			e.Do(func(ctx context.Context) error { return evict(ctx, e, pod) })
			volume := boundTo(e, claim)
			if handle := persistentVolume(e, volume.Name).Spec.CSI.VolumeHandle; handle != tc.want {
				t.Errorf("handle %s, want %s", handle, tc.want)
			}
			if tc.want == "later-c" {
				e.WaitEvent(e.Namespace, "c", string(rules.DeletionFailed), "may have been created by another client")
				e.WaitEvent(e.Namespace, "c", string(rules.CreationFailed), "may have been created by another client")
			}
			removed(e, claim)
		})
	}
}
