// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// now is a claim that is to be bound now.
func now(e *fixture.Env, name string) *builders.PVC {
	return e.PVC(name).Annotation(wellknown.BindAnnotation, wellknown.BindNow)
}

// TestManyClaims: claims that are created at once are all bound, to volumes that fit best.
func TestManyClaims(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("n1"), e.Node("n2"))
	var volumes []*builders.PV
	for i := range 100 {
		volumes = append(volumes, e.LocalPV(fmt.Sprintf("v%02d", i), fmt.Sprintf("n%d", 1+i%2)).Capacity(fmt.Sprintf("%dGi", i+1)))
	}
	e.CreatePVs(volumes...)
	want := map[string]string{}
	for i := range 100 {
		name := fmt.Sprintf("c%02d", i)
		e.CreatePVC(now(e, name).Request(fmt.Sprintf("%dGi", i+1)))
		want[name] = fmt.Sprintf("v%02d", i)
	}
	for name, volume := range want {
		e.WaitBound(name, volume)
	}
	for _, volume := range want {
		e.WaitPV(volume, "is Bound", func(pv *corev1.PersistentVolume) bool { return pv.Status.Phase == corev1.VolumeBound })
	}
	e.NoVolumeTwice()
}

// TestTooFewVolumes: the oldest claims get them. The others have an event that says what helps.
func TestTooFewVolumes(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("n1"))
	var waiting []*corev1.PersistentVolumeClaim
	for i := range 8 {
		waiting = append(waiting, e.CreatePVC(now(e, fmt.Sprintf("c%d", i)).Request("2Gi")))
	}
	e.CreatePVs(e.LocalPV("small", "n1").Capacity("1Gi"))
	for _, claim := range waiting {
		e.WaitEvent(e.Namespace, claim.Name, "NoVolumeForClaim", e.Name("local"), "2Gi, ReadWriteOnce")
	}
	e.CreatePVs(e.LocalPV("v1", "n1").Capacity("2Gi"), e.LocalPV("v2", "n1").Capacity("3Gi"), e.LocalPV("v3", "n1").Capacity("4Gi"))
	slices.SortFunc(waiting, claims.ByAge)
	bound := func() (names []string) {
		for _, claim := range waiting {
			if seen := e.SeenPVC(claim.Name); seen != nil && plan.IsBound(seen) {
				names = append(names, claim.Name)
			}
		}
		return names
	}
	e.Wait("three claims to be bound", func() bool { return len(bound()) == 3 })
	if diff := cmp.Diff([]string{waiting[0].Name, waiting[1].Name, waiting[2].Name}, bound()); diff != "" {
		t.Errorf("claims that are bound (-want +got):\n%s", diff)
	}
}

// TestWhere: volumes of nodes that the class allows, and of the node that the claim names.
func TestWhere(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("n1"), e.Node("n2"), e.Node("n3"))
	e.CreateClass(e.Class("some").BindingMode(storagev1.VolumeBindingWaitForFirstConsumer).Provisioner("kubernetes.io/no-provisioner").
		AllowedTopology(corev1.LabelHostname, e.Name("n2"), e.Name("n3")))
	e.CreatePVs(
		e.LocalPV("v1", "n1").Class(e.Name("some")).Capacity("1Gi"),
		e.LocalPV("v2", "n2").Class(e.Name("some")).Capacity("2Gi"),
		e.LocalPV("v3", "n3").Class(e.Name("some")).Capacity("3Gi"),
	)
	e.CreatePVC(now(e, "named").Class(e.Name("some")).Request("1Gi").Annotation(wellknown.BindNodeAnnotation, e.Name("n3")))
	e.WaitBound("named", "v3")
	e.CreatePVC(e.PVC("any").Class(e.Name("some")).Request("1Gi").Annotation("example.com/now", "true"))
	e.WaitBound("any", "v2")
	e.CreatePVC(now(e, "not-allowed").Class(e.Name("some")).Request("1Gi"))
	e.WaitEvent(e.Namespace, "not-allowed", "NoVolumeForClaim", "of 1 that are free")
	e.CreatePVC(now(e, "nowhere").Class(e.Name("some")).Request("1Gi").Annotation(wellknown.BindNodeAnnotation, "gone"))
	e.WaitEvent(e.Namespace, "nowhere", "NoNodeForClaim", `"gone" does not exist`)
	e.CreatePVC(e.PVC("invalid").Class(e.Name("some")).Request("1Gi").Annotation(wellknown.BindAnnotation, "Later"))
	e.WaitEvent(e.Namespace, "invalid", "InvalidBindNow", `"Later" is not allowed: set it to Now`)
	e.CreatePVs(e.PV("reserved").Hostname(e.Name("n1")).Class(e.Name("some")).Capacity("1Gi").ClaimRef(e.Namespace, "mine", ""))
	e.CreatePVC(now(e, "mine").Class(e.Name("some")).Request("1Gi"))
	e.WaitBound("mine", "reserved")
}

// TestPods: a claim whose pod a scheduler may place is left to the scheduler.
func TestPods(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("n1"))
	pod := e.CreatePod(e.Pod("unschedulable").PVC("a").NodeSelector("no", "node"))
	gated := e.Pod("gated").PVC("b").Obj()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/restored"}}
	e.CreatePodObject(gated)
	e.CreatePVs(e.LocalPV("v1", "n1").Capacity("1Gi"), e.LocalPV("v2", "n1").Capacity("1Gi"))
	e.CreatePVC(now(e, "a").Request("1Gi"))
	e.CreatePVC(now(e, "b").Request("1Gi"))
	e.WaitPVC("b", "is bound", plan.IsBound)
	if plan.IsBound(e.SeenPVC("a")) {
		t.Error("claim a is bound, although the scheduler may place its pod")
	}
	e.DeletePod(pod)
	e.WaitPVC("a", "is bound", plan.IsBound)
	e.NoVolumeTwice()
}

// TestBesideScheduler: pods appear while their claims are bound.
func TestBesideScheduler(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Shared()
	e.AddNodes(e.Node("n1"), e.Node("n2"))
	const n = 40
	var volumes []*builders.PV
	for i := range 2 * n {
		volumes = append(volumes, e.LocalPV(fmt.Sprintf("v%02d", i), fmt.Sprintf("n%d", 1+i%2)).Capacity("1Gi"))
	}
	e.CreatePVs(volumes...)
	var pods []*corev1.Pod
	for i := range n {
		name := fmt.Sprintf("c%02d", i)
		e.CreatePVC(now(e, name).Request("1Gi"))
		pods = append(pods, e.CreatePod(e.Pod("p"+name).PVC(name)))
	}
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	for i := range n {
		e.WaitPVC(fmt.Sprintf("c%02d", i), "is Bound", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
	}
	e.NoVolumeTwice()
}

// TestClaimsAreDeleted: claims that are deleted while they are bound leave no volume reserved.
func TestClaimsAreDeleted(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("n1"))
	const n = 30
	var volumes []*builders.PV
	for i := range n {
		volumes = append(volumes, e.LocalPV(fmt.Sprintf("v%02d", i), "n1").Capacity("1Gi"))
	}
	e.CreatePVs(volumes...)
	for i := range n {
		name := fmt.Sprintf("c%02d", i)
		e.CreatePVC(now(e, name).Request("1Gi"))
		e.DeletePVC(name)
	}
	e.Wait("volumes to be free or Released", func() bool {
		return !slices.ContainsFunc(e.SeenPVs(), func(pv *corev1.PersistentVolume) bool {
			return (pv.Spec.ClaimRef == nil) != (pv.Status.Phase == corev1.VolumeAvailable) ||
				pv.Spec.ClaimRef != nil && pv.Status.Phase != corev1.VolumeReleased
		})
	})
}

// provisionFor acts as the provisioner: it creates a volume for a claim that has selected a node,
// and returns the node.
func provisionFor(e *fixture.Env, claim string) string {
	seen := e.WaitPVC(claim, "has a selected node", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Annotations[plan.AnnSelectedNode] != "" && c.Annotations[plan.AnnStorageProvisioner] != ""
	})
	node := seen.Annotations[plan.AnnSelectedNode]
	e.CreatePVsUnseen(e.PV("pv-"+claim).Hostname(node).Class(*seen.Spec.StorageClassName).Capacity("1Gi").ClaimRef(e.Namespace, claim, string(seen.UID)).ProvisionedBy("csi.example.com"))
	return node
}

// TestProvisioned: a node is selected for a claim that no existing volume serves. A node that the
// provisioner rejects is not selected again.
func TestProvisioned(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("n1"), e.Node("n2"))
	class := e.CreateClass(e.Class("made").BindingMode(storagev1.VolumeBindingWaitForFirstConsumer).Provisioner("csi.example.com").
		AllowedTopology(corev1.LabelHostname, e.Name("n1"), e.Name("n2")))
	e.CreatePVC(now(e, "a").Class(class.Name).Request("1Gi"))
	provisionFor(e, "a")
	e.WaitPVC("a", "is bound", plan.IsBound)

	e.CreatePVC(now(e, "b").Class(class.Name).Request("1Gi").Annotation(wellknown.BindNodeAnnotation, e.Name("n2")))
	if node := provisionFor(e, "b"); node != e.Name("n2") {
		t.Errorf("node %s is selected, want that of the annotation", node)
	}
	e.WaitPVC("b", "is bound", plan.IsBound)

	e.CreatePVC(now(e, "c").Class(class.Name).Request("1Gi"))
	seen := e.WaitPVC("c", "has a selected node", func(c *corev1.PersistentVolumeClaim) bool { return c.Annotations[plan.AnnSelectedNode] != "" })
	first := seen.Annotations[plan.AnnSelectedNode]
	e.PatchPVC("c", map[string]any{"metadata": map[string]any{"annotations": map[string]any{plan.AnnSelectedNode: nil}}})
	e.WaitPVC("c", "has another selected node", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Annotations[plan.AnnSelectedNode] != "" && c.Annotations[plan.AnnSelectedNode] != first
	})
	provisionFor(e, "c")
	e.WaitPVC("c", "is bound", plan.IsBound)

	e.CreatePVC(now(e, "d").Class(class.Name).Request("1Gi"))
	seen = e.WaitPVC("d", "has a selected node", func(c *corev1.PersistentVolumeClaim) bool { return c.Annotations[plan.AnnSelectedNode] != "" })
	first = seen.Annotations[plan.AnnSelectedNode]
	e.Do(func(ctx context.Context) error {
		return e.Client.CoreV1().Nodes().Delete(ctx, first, metav1.DeleteOptions{})
	})
	e.WaitPVC("d", "has another selected node", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Annotations[plan.AnnSelectedNode] != "" && c.Annotations[plan.AnnSelectedNode] != first
	})
	provisionFor(e, "d")
	e.WaitPVC("d", "is bound", plan.IsBound)
}
