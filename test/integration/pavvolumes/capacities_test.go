// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/pav/helperpod"
	"stowage.dev/stowage/pkg/pav/report"
	"stowage.dev/stowage/test/integration/fixture"
)

// sized is local with the capacity that the label "disk" of a node has.
var sized = strings.Replace(local, "  backoff:", `  storageCapacity: "{% if node.metadata.labels %}{{ node.metadata.labels.disk | default('') }}{% endif %}"`+"\n  backoff:", 1)

// capacityOf waits until the capacity of a class on a node is as expected.
func capacityOf(e *fixture.Env, class, node, what string, is func(*storagev1.CSIStorageCapacity) bool) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	capacities := e.Client.StorageV1().CSIStorageCapacities(namespace)
	of := func(list []storagev1.CSIStorageCapacity) *storagev1.CSIStorageCapacity {
		i := slices.IndexFunc(list, func(a storagev1.CSIStorageCapacity) bool {
			return a.StorageClassName == e.Name(class) && a.Annotations[wellknown.PavNodeAnnotation] == e.Name(node)
		})
		if i < 0 {
			return nil
		}
		return &list[i]
	}
	list, err := capacities.List(ctx, metav1.ListOptions{LabelSelector: wellknown.PavProvisionerLabel + "=" + e.Namespace})
	if err != nil {
		e.T.Fatal(err)
	}
	current := of(list.Items)
	if is(current) {
		return
	}
	watch, err := capacities.Watch(ctx, metav1.ListOptions{LabelSelector: wellknown.PavProvisionerLabel + "=" + e.Namespace, ResourceVersion: list.ResourceVersion})
	if err != nil {
		e.T.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		capacity, ok := event.Object.(*storagev1.CSIStorageCapacity)
		if !ok || of([]storagev1.CSIStorageCapacity{*capacity}) == nil {
			continue
		}
		if current = capacity; event.Type == "DELETED" {
			current = nil
		}
		if is(current) {
			return
		}
	}
	e.T.Fatalf("the capacity of class %s on node %s is not %s: %+v", class, node, what, current)
}

// capacityIs waits for a capacity, and for the claims that it counts.
func capacityIs(e *fixture.Env, class, node, want string, counted ...types.UID) {
	e.T.Helper()
	uids := make([]string, len(counted))
	for i, uid := range counted {
		uids[i] = string(uid)
	}
	slices.Sort(uids)
	capacityOf(e, class, node, want, func(a *storagev1.CSIStorageCapacity) bool {
		return a != nil && a.Capacity.String() == want && a.Annotations[wellknown.PavCountedAnnotation] == strings.Join(uids, ",")
	})
}

func noCapacity(e *fixture.Env, class, node string) {
	e.T.Helper()
	capacityOf(e, class, node, "absent", func(a *storagev1.CSIStorageCapacity) bool { return a == nil })
}

func patchNode(e *fixture.Env, node, patch string) {
	e.T.Helper()
	e.Do(func(ctx context.Context) error {
		_, err := e.Client.CoreV1().Nodes().Patch(ctx, e.Name(node), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// tracks waits until the CSIDriver of the Env's provisioner tracks capacity, or does not.
func tracks(e *fixture.Env, want bool) {
	e.T.Helper()
	seen(e, e.Client.StorageV1().CSIDrivers(), e.Namespace, func(d *storagev1.CSIDriver) bool { return *d.Spec.StorageCapacity == want })
}

// A node has the capacity of the template, less what the volumes of the provisioner have there, from
// the moment that they are being made until they are deleted. It is published before the driver says
// that it tracks capacity, and removed after the driver does not say so any more.
func TestCapacities(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	created := make(chan struct{})
	create := sync.OnceFunc(func() { close(created) })
	t.Cleanup(create)
	provide(e, sized, corev1.PersistentVolumeReclaimDelete, func(_ string, step helperpod.Step, _ int) outcome {
		if step == helperpod.Creation {
			<-created
		}
		return exit(report.Report{Capacity: new("3Gi")}, 0)
	})
	e.CreateClass(e.Class("late").Provisioner(e.Namespace))
	addNode(e, "a")
	addNode(e, "b")
	noCapacity(e, "late", "a")
	tracks(e, true)
	patchNode(e, "a", `{"metadata":{"labels":{"disk":"10Gi"}}}`)
	capacityIs(e, "late", "a", "10Gi")
	noCapacity(e, "late", "b")
	noCapacity(e, "made", "a") // it binds immediately

	claim := e.CreatePVC(e.PVC("c").Class(e.Name("late")).Request("2Gi").SelectedNode(e.Name("a")))
	capacityIs(e, "late", "a", "8Gi", claim.UID)
	second := e.CreatePVC(e.PVC("d").Class(e.Name("late")).Request("1Gi").SelectedNode(e.Name("a")))
	capacityIs(e, "late", "a", "7Gi", claim.UID, second.UID)
	create()
	boundTo(e, claim)
	boundTo(e, second)
	capacityIs(e, "late", "a", "4Gi") // each has 3Gi

	e.CreateClass(e.Class("other").Provisioner(e.Namespace))
	capacityIs(e, "other", "a", "4Gi")
	patchNode(e, "a", `{"metadata":{"labels":{"disk":"5Gi"}}}`)
	capacityIs(e, "late", "a", "0") // not less
	patchNode(e, "a", `{"metadata":{"labels":{"disk":"many"}}}`)
	noCapacity(e, "late", "a")
	seen(e, clients.Provisioners, e.Namespace, func(p *stowage.PavProvisioner) bool {
		condition := meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionCapacityPublished)
		return condition != nil && condition.Status == metav1.ConditionFalse &&
			strings.Contains(condition.Message, "1 nodes have no capacity, among them "+e.Name("a")+": spec.storageCapacity: must be a quantity")
	})
	e.WaitEvent("default", e.Namespace, "NodesWithoutCapacity", e.Name("a"))
	patchNode(e, "a", `{"metadata":{"labels":{"disk":"10Gi"}}}`)
	seen(e, clients.Provisioners, e.Namespace, func(p *stowage.PavProvisioner) bool {
		return meta.IsStatusConditionTrue(p.Status.Conditions, stowage.ConditionCapacityPublished)
	})
	capacityIs(e, "late", "a", "4Gi")
	e.DeletePVC("d")
	capacityIs(e, "late", "a", "7Gi")

	e.Do(func(ctx context.Context) error { // what others change or delete is repaired
		return e.Client.StorageV1().CSIStorageCapacities(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: wellknown.PavProvisionerLabel + "=" + e.Namespace})
	})
	capacityIs(e, "other", "a", "7Gi")
	e.Do(func(ctx context.Context) error {
		return e.Client.StorageV1().StorageClasses().Delete(ctx, e.Name("other"), metav1.DeleteOptions{})
	})
	noCapacity(e, "other", "a")

	e.Do(func(ctx context.Context) error {
		_, err := clients.Provisioners.Patch(ctx, e.Namespace, types.MergePatchType, []byte(`{"spec":{"storageCapacity":null}}`), metav1.PatchOptions{})
		return err
	})
	tracks(e, false)
	noCapacity(e, "late", "a")
	e.DeletePVC("c")
}

// A volume that does not fit its node is not made there, whatever the scheduler has selected: its
// claim is scheduled again.
func TestNoCapacityLeft(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	provide(e, sized, corev1.PersistentVolumeReclaimDelete, func(string, helperpod.Step, int) outcome {
		return exit(report.Report{Capacity: new("2Gi")}, 0)
	})
	e.CreateClass(e.Class("late").Provisioner(e.Namespace))
	addNode(e, "a")
	addNode(e, "b")
	for _, node := range []string{"a", "b"} {
		patchNode(e, node, `{"metadata":{"labels":{"disk":"10Gi"}}}`)
		capacityIs(e, "late", node, "10Gi")
	}
	var names []string
	var claims []*corev1.PersistentVolumeClaim
	for i := range 8 { // at once, as by schedulers without common reservations
		names = append(names, string(rune('a'+i)))
		claims = append(claims, e.CreatePVC(e.PVC(names[i]).Class(e.Name("late")).Request("2Gi").SelectedNode(e.Name("a"))))
	}
	refused := 0
	for i, name := range names {
		claim := e.WaitPVC(name, "bound or without a selected node", func(c *corev1.PersistentVolumeClaim) bool {
			return c.Status.Phase == corev1.ClaimBound || c.Annotations[rules.AnnSelectedNode] == ""
		})
		if claim.Status.Phase == corev1.ClaimBound {
			continue
		}
		if refused++; refused == 1 {
			e.WaitEvent(e.Namespace, name, string(rules.NodeUnsuitable), "spec.storageCapacity")
		}
		e.PatchPVC(name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{rules.AnnSelectedNode: e.Name("b")}}})
		boundTo(e, claims[i])
	}
	if refused != 3 {
		t.Errorf("%d of 8 claims did not get their node, want 3", refused)
	}
	capacityIs(e, "late", "a", "0")
	capacityIs(e, "late", "b", "4Gi")
}
