// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// immediate returns a class that binds at once, and functions that make its volumes and claims.
func immediate(e *fixture.Env, provisioner string) (volume func(string) *builders.PV, claim func(string) *builders.PVC) {
	class := e.CreateClass(e.Class("now").Immediate().Provisioner(provisioner)).Name
	return func(name string) *builders.PV { return e.PV(name).Class(class) },
		func(name string) *builders.PVC { return e.PVC(name).Class(class) }
}

const noProvisioner = "kubernetes.io/no-provisioner"

func in(phase corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) bool {
	return func(v *corev1.PersistentVolume) bool { return v.Status.Phase == phase }
}

// TestImmediate: claims get the smallest volumes that fit, later ones when there are any; a volume is
// Released with its claim, and Available when its claimRef is removed.
func TestImmediate(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	volume, claim := immediate(e, noProvisioner)
	e.CreatePVs(volume("large").Capacity("3Gi"), volume("medium").Capacity("2Gi"), volume("small").Capacity("1Mi"))
	e.CreatePVC(claim("first"))
	e.WaitBound("first", "medium")
	e.CreatePVC(claim("second").Request("4Gi"))
	e.WaitEvent(e.Namespace, "second", "ProvisioningFailed", "nothing provisions this class")
	e.CreatePVs(volume("huge").Capacity("5Gi"))
	bound := e.WaitBound("second", "huge")
	if got := bound.Status.Capacity.Storage().String(); got != "5Gi" {
		t.Errorf("capacity %s in the claim's status, want 5Gi", got)
	}
	e.DeletePVC("first")
	e.WaitPV(e.Name("medium"), "Released", in(corev1.VolumeReleased))
	e.PatchPV("medium", map[string]any{"spec": map[string]any{"claimRef": nil}})
	e.WaitPV(e.Name("medium"), "Available", in(corev1.VolumeAvailable))
	e.CreatePVC(claim("third"))
	e.WaitBound("third", "medium")
	e.NoVolumeTwice()
}

// TestReserved: volumes and claims that name each other, on either side.
func TestReserved(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	volume, claim := immediate(e, noProvisioner)
	e.CreatePVsUnseen(volume("reserved").Capacity("9Gi").ClaimRef(e.Namespace, "by-volume", ""))
	e.CreatePVs(volume("free"), volume("named").Capacity("9Gi"))
	e.CreatePVC(claim("by-volume"))
	e.WaitBound("by-volume", "reserved")
	e.CreatePVC(claim("by-claim").VolumeName(e.Name("named")))
	if bound := e.WaitBound("by-claim", "named"); bound.Annotations[plan.AnnBoundByController] != "" {
		t.Error("the claim is marked as bound by a controller, its user named the volume")
	}
	e.CreatePVC(claim("too-late").VolumeName(e.Name("named")))
	e.WaitEvent(e.Namespace, "too-late", "FailedBinding", "already bound to a different claim")
	e.CreatePVC(claim("too-large").Request("2Gi").VolumeName(e.Name("free")))
	e.WaitEvent(e.Namespace, "too-large", "VolumeMismatch", "requested PV is too small")
	e.CreatePVC(claim("early").VolumeName(e.Name("later")))
	e.WaitEvent(e.Namespace, "early", "FailedBinding", "not found")
	e.CreatePVsUnseen(volume("later"))
	e.WaitBound("early", "later")
}

// TestReleased: the volume of a deleted claim stays, by policy.
func TestReleased(t *testing.T) {
	t.Parallel()
	for policy, tc := range map[corev1.PersistentVolumeReclaimPolicy]struct {
		phase corev1.PersistentVolumePhase
		event string
	}{
		corev1.PersistentVolumeReclaimRetain:  {corev1.VolumeReleased, ""},
		corev1.PersistentVolumeReclaimDelete:  {corev1.VolumeReleased, "VolumeFailedDelete"},
		corev1.PersistentVolumeReclaimRecycle: {corev1.VolumeFailed, "VolumeFailedRecycle"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			volume, claim := immediate(e, noProvisioner)
			e.CreatePVs(volume("v").ReclaimPolicy(policy))
			e.CreatePVC(claim("c"))
			e.WaitBound("c", "v")
			e.DeletePVC("c")
			e.WaitPV("v", string(tc.phase), in(tc.phase))
			if tc.event != "" {
				e.WaitEvent(metav1.NamespaceDefault, e.Name("v"), tc.event)
			}
		})
	}
}

// TestLost: a claim whose volume is deleted is Lost, and recovers when the volume is back.
func TestLost(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	volume, claim := immediate(e, noProvisioner)
	e.CreatePVs(volume("v"))
	e.CreatePVC(claim("c"))
	e.WaitBound("c", "v")
	e.Do(func(ctx context.Context) error {
		return e.Client.CoreV1().PersistentVolumes().Delete(ctx, e.Name("v"), metav1.DeleteOptions{})
	})
	e.PatchPV("v", map[string]any{"metadata": map[string]any{"finalizers": nil}}) // it protects a bound volume
	e.WaitPVC("c", "Lost", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimLost })
	e.WaitEvent(e.Namespace, "c", "ClaimLost", "has lost its PersistentVolume")
	e.CreatePVsUnseen(volume("v"))
	e.WaitBound("c", "v")
}

// TestProvisioned: an external provisioner waits for the claim's annotations, and its volume is bound.
// Late binding waits for the scheduler to select a node.
func TestProvisioned(t *testing.T) {
	t.Parallel()
	for _, mode := range []storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			class := e.CreateClass(e.Class("csi").BindingMode(mode).Provisioner("csi.example.com")).Name
			claim := e.CreatePVC(e.PVC("c").Class(class))
			if mode == storagev1.VolumeBindingWaitForFirstConsumer {
				e.WaitEvent(e.Namespace, "c", "WaitForFirstConsumer")
				e.PatchPVC("c", map[string]any{"metadata": map[string]any{"annotations": map[string]any{plan.AnnSelectedNode: "n"}}})
			}
			e.WaitPVC("c", "with its provisioner", func(c *corev1.PersistentVolumeClaim) bool {
				return c.Annotations[plan.AnnStorageProvisioner] == "csi.example.com" && c.Annotations[plan.AnnBetaStorageProvisioner] == "csi.example.com"
			})
			e.CreatePVsUnseen(e.PV("made").Class(class).CSI("csi.example.com", "h").ProvisionedBy("csi.example.com").
				ReclaimPolicy(corev1.PersistentVolumeReclaimDelete).ClaimRef(e.Namespace, "c", string(claim.UID)))
			e.WaitBound("c", "made")
			e.DeletePVC("c")
			e.WaitPV(e.Name("made"), "Released", in(corev1.VolumeReleased))
		})
	}
}

// TestLateBinding: schedulers of both binding modes.
func TestLateBinding(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		e.AddNodes(e.Node("a"), e.Node("b"))
		e.CreatePVs(e.LocalPV("on-a", "a"), e.LocalPV("on-b", "b"))
		e.CreatePVC(e.PVC("data"))
		e.WaitEvent(e.Namespace, "data", "WaitForFirstConsumer")
		pod := e.CreatePod(e.Pod("web").PVC("data"))
		placed := e.WaitScheduled(pod)
		e.Wait("the pod's claim to be bound to a volume of its node", func() bool {
			volume := e.Bindings()["data"]
			return volume == "on-a" && placed.Spec.NodeName == e.Name("a") || volume == "on-b" && placed.Spec.NodeName == e.Name("b")
		})
	})
}
