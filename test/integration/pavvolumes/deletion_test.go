// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// finalized waits until a PersistentVolume has the finalizer, or has not.
func finalized(e *fixture.Env, name string, want bool) {
	e.T.Helper()
	seen(e, e.Client.CoreV1().PersistentVolumes(), name, func(v *corev1.PersistentVolume) bool {
		return slices.Contains(v.Finalizers, rules.PVFinalizer) == want
	})
}

// patchPV changes a PersistentVolume by a JSON merge patch.
func patchPV(e *fixture.Env, name, patch string) {
	e.T.Helper()
	fixture.Get(e, func(ctx context.Context) (*corev1.PersistentVolume, error) {
		return e.Client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	})
}

// notDeletable waits until the condition Deletable of a volume has a reason.
func notDeletable(e *fixture.Env, name string, reason rules.Reason) {
	e.T.Helper()
	seen(e, clients.Volumes, name, func(v *stowage.PavVolume) bool {
		condition := meta.FindStatusCondition(v.Status.Conditions, stowage.ConditionDeletable)
		return condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == string(reason)
	})
}

// A volume is kept or deleted by the reclaim policy that its PersistentVolume has when it is released,
// or gets after that. The finalizer follows the policy, and a user cannot remove it for good.
func TestReclaimPolicy(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	var deletions atomic.Int32
	provide(e, withPods, corev1.PersistentVolumeReclaimDelete, func(_ string, step helperpod.Step, _ int) outcome {
		if step == helperpod.Deletion {
			deletions.Add(1)
		}
		return exit(report.Report{Capacity: new("1Gi")}, 0)
	})
	claim, volume := bound(e)
	finalized(e, volume.Name, true)
	patchPV(e, volume.Name, `{"metadata":{"finalizers":["kubernetes.io/pv-protection"]}}`)
	finalized(e, volume.Name, true)
	patchPV(e, volume.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	finalized(e, volume.Name, false)
	e.DeletePVC(claim.Name)
	seen(e, e.Client.CoreV1().PersistentVolumes(), volume.Name, func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeReleased })
	if n := deletions.Load(); n != 0 {
		t.Errorf("%d deletion pods of a retained volume", n)
	}
	patchPV(e, volume.Name, `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	nothingLeft(e, claim)
	if n := deletions.Load(); n != 1 {
		t.Errorf("%d deletion pods, want 1", n)
	}
}

// A PersistentVolume that is deleted by hand stays while it is bound. Then its volume is deleted.
func TestBoundVolumeDeleted(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, withPods, corev1.PersistentVolumeReclaimDelete, func(string, helperpod.Step, int) outcome {
		return exit(report.Report{Capacity: new("1Gi")}, 0)
	})
	claim, volume := bound(e)
	pvs := e.Client.CoreV1().PersistentVolumes()
	e.Do(func(ctx context.Context) error { return pvs.Delete(ctx, volume.Name, metav1.DeleteOptions{}) })
	seen(e, pvs, volume.Name, func(v *corev1.PersistentVolume) bool {
		return v.DeletionTimestamp != nil && v.Status.Phase == corev1.VolumeBound
	})
	removed(e, claim)
}

// A deletion that fails is repeated. A released PersistentVolume that is deleted by hand, or is
// removed with its finalizers, does not end that; the current spec of the provisioner does.
func TestDeletionFails(t *testing.T) {
	t.Parallel()
	for name, strip := range map[string]bool{"deleted": false, "removed with its finalizers": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			text := strings.Replace(withPods, "  volumeDeletion:\n    podTemplate: {spec: {containers: [{name: main, image: i}]}}",
				"  volumeDeletion:\n    podTemplate: {spec: {containers: [{name: main, image: i, args: [first]}]}}", 1)
			provide(e, text, corev1.PersistentVolumeReclaimDelete, func(arg string, step helperpod.Step, _ int) outcome {
				if step == helperpod.Deletion && arg == "first" {
					return exit(report.Report{Error: "the volume is busy"}, 1)
				}
				return exit(report.Report{Capacity: new("1Gi")}, 0)
			})
			claim, volume := bound(e)
			e.DeletePVC(claim.Name)
			notDeletable(e, volume.Name, rules.DeletionFailed)
			pvs := e.Client.CoreV1().PersistentVolumes()
			e.Do(func(ctx context.Context) error { return pvs.Delete(ctx, volume.Name, metav1.DeleteOptions{}) })
			if strip {
				patchPV(e, volume.Name, `{"metadata":{"finalizers":null}}`)
				gone(e, pvs, &corev1.PersistentVolume{}, volume.Name)
			}
			failures := seen(e, clients.Volumes, volume.Name, func(v *stowage.PavVolume) bool { return v.Status.DeletionFailures >= 2 }).Status.DeletionFailures
			seen(e, clients.Volumes, volume.Name, func(v *stowage.PavVolume) bool { return v.Status.DeletionFailures > failures })
			patchSpec(e, `{"volumeDeletion":{"podTemplate":{"spec":{"containers":[{"name":"main","image":"i","args":["second"]}]}}}}`)
			accepted(e, 2)
			useLatest(e, volume.Name)
			nothingLeft(e, claim)
		})
	}
}

// A provisioner whose finalizer was removed, and that was created again, deletes the volumes that the
// first one made, as the first one did.
func TestProvisionerRecreated(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	text := strings.Replace(withPods, "  volumeDeletion:\n    podTemplate: {spec: {containers: [{name: main, image: i}]}}",
		"  volumeDeletion:\n    podTemplate: {spec: {containers: [{name: main, image: i, args: [first]}]}}", 1)
	var by atomic.Value
	provide(e, text, corev1.PersistentVolumeReclaimDelete, func(arg string, step helperpod.Step, _ int) outcome {
		if step == helperpod.Deletion {
			by.Store(arg)
		}
		return exit(report.Report{Capacity: new("1Gi")}, 0)
	})
	claim, volume := bound(e)
	e.Do(func(ctx context.Context) error {
		return clients.Provisioners.Delete(ctx, e.Namespace, metav1.DeleteOptions{})
	})
	fixture.Get(e, func(ctx context.Context) (*stowage.PavProvisioner, error) {
		return clients.Provisioners.Patch(ctx, e.Namespace, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	gone(e, clients.Provisioners, &stowage.PavProvisioner{}, e.Namespace)
	create(e, strings.Replace(text, "args: [first]", "args: [second]", 1))
	e.Do(func(ctx context.Context) error { // as the garbage collector does, since its owner is gone
		return e.Client.StorageV1().CSIDrivers().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + e.Namespace})
	})
	accepted(e, 1)
	if v := seen(e, clients.Volumes, volume.Name, func(*stowage.PavVolume) bool { return true }); v.Status.Phase != stowage.PavVolumeProvisioned {
		t.Errorf("phase %s, want Provisioned", v.Status.Phase)
	}
	removed(e, claim)
	if by.Load() != "first" {
		t.Errorf("deleted by the pod %q, want first", by.Load())
	}
}

// local is withPods whose volumes are on the selected node.
var local = strings.Replace(withPods, "  backoff:", "  accessibility: SelectedNode\n  backoff:", 1)

// addNode creates a node without kubelet. It is deleted after the test.
func addNode(e *fixture.Env, name string) {
	e.T.Helper()
	fixture.Get(e, func(ctx context.Context) (*corev1.Node, error) {
		return e.Client.CoreV1().Nodes().Create(ctx, e.Node(name).Hostname("host-of-"+e.Name(name)).Obj(), metav1.CreateOptions{})
	})
}

// The claims of volumes on a node that is gone are released by the policies of node loss, and the
// volumes are given up then. Without a policy an administrator decides.
func TestLostNode(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, local, corev1.PersistentVolumeReclaimDelete, func(string, helperpod.Step, int) outcome {
		return exit(report.Report{Capacity: new("1Gi")}, 0)
	})
	e.CreateClass(e.Class("late").Provisioner(e.Namespace))
	addNode(e, "a")
	late := func(name string) *builders.PVC { return e.PVC(name).Class(e.Name("late")).SelectedNode(e.Name("a")) }
	releasedClaim := e.CreatePVC(late("released").Annotation(wellknown.NodeLossRecreatableAnnotation, "true").
		Annotation(wellknown.NodeLossAnnotation, "Release").Annotation(wellknown.NodeLossDelayAnnotation, "1s"))
	kept := e.CreatePVC(late("kept").Annotation(wellknown.NodeLossRecreatableAnnotation, "true"))
	boundTo(e, releasedClaim)
	volume := boundTo(e, kept)
	e.Do(func(ctx context.Context) error {
		return e.Client.CoreV1().Nodes().Delete(ctx, e.Name("a"), metav1.DeleteOptions{})
	})
	e.WaitEvent(e.Namespace, "released", "ClaimReleased", "is lost")
	nothingLeft(e, releasedClaim)
	e.WaitEvent(e.Namespace, "kept", "VolumeLost", "the claim is kept")
	e.DeletePVC("kept")
	notDeletable(e, volume.Name, rules.NodeGone)
	if v := seen(e, clients.Volumes, volume.Name, func(*stowage.PavVolume) bool { return true }); v.DeletionTimestamp != nil {
		t.Error("the PavVolume of a volume without a policy was deleted")
	}
	e.Do(func(ctx context.Context) error { // for the claims that their users have deleted, too
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"Release",%q:"1s"}}}`, wellknown.NodeLossAnnotation, wellknown.NodeLossDelayAnnotation)
		_, err := e.Client.StorageV1().StorageClasses().Patch(ctx, e.Name("late"), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	nothingLeft(e, kept)
}

// The volume of a provisioner with accessibility SelectedNode is made on the node that the scheduler
// selected, or on the next one if the pod requests that. When the node is gone, an administrator has
// to give up what it has.
func TestSelectedNode(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, local, corev1.PersistentVolumeReclaimDelete, func(_ string, step helperpod.Step, number int) outcome {
		if step == helperpod.Creation && number == 1 {
			return exit(report.Report{Error: "the disks are full", Reschedule: true}, 1)
		}
		return exit(report.Report{Capacity: new("1Gi")}, 0)
	})
	e.CreateClass(e.Class("late").Provisioner(e.Namespace))
	addNode(e, "a")
	addNode(e, "b")
	e.CreatePVC(e.PVC("immediate").Class(e.Name("made")))
	e.WaitEvent(e.Namespace, "immediate", string(rules.ClassUnsuitable), "must be WaitForFirstConsumer")
	claim := e.CreatePVC(e.PVC("c").Class(e.Name("late")).SelectedNode(e.Name("a")))
	e.WaitPVC("c", "without a selected node", func(c *corev1.PersistentVolumeClaim) bool { return c.Annotations[rules.AnnSelectedNode] == "" })
	e.WaitEvent(e.Namespace, "c", string(rules.NodeUnsuitable), "the disks are full")
	e.PatchPVC("c", map[string]any{"metadata": map[string]any{"annotations": map[string]any{rules.AnnSelectedNode: e.Name("b")}}})
	volume := boundTo(e, claim)
	terms := persistentVolume(e, volume.Name).Spec.NodeAffinity.Required.NodeSelectorTerms
	if want := builders.Term(builders.In(corev1.LabelHostname, "host-of-"+e.Name("b"))); len(terms) != 1 || terms[0].String() != want.String() {
		t.Errorf("node affinity %v, want %v", terms, want)
	}
	e.Do(func(ctx context.Context) error {
		return e.Client.CoreV1().Nodes().Delete(ctx, e.Name("b"), metav1.DeleteOptions{})
	})
	seen(e, clients.Volumes, volume.Name, func(v *stowage.PavVolume) bool {
		return meta.IsStatusConditionFalse(v.Status.Conditions, stowage.ConditionNodeExists) && v.Status.Phase == stowage.PavVolumeProvisioned
	})
	e.DeletePVC("c")
	notDeletable(e, volume.Name, rules.NodeGone)
	e.Do(func(ctx context.Context) error {
		return clients.Volumes.Delete(ctx, volume.Name, metav1.DeleteOptions{})
	})
	nothingLeft(e, claim)
}
