// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/builders"
)

// uid has a deletion hit this very object.
func uid(pv *corev1.PersistentVolume) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pv.UID, ResourceVersion: &pv.ResourceVersion}}
}

// TestDelete: a provisioner deletes volumes of its own node only, singly or as a
// collection.
func TestDelete(t *testing.T) {
	t.Parallel()
	const own = "its own volumes only"
	one := func(t *testing.T, by *user, pv *corev1.PersistentVolume) error {
		return by.CoreV1().PersistentVolumes().Delete(t.Context(), pv.Name, uid(pv))
	}
	all := func(t *testing.T, by *user, pv *corev1.PersistentVolume) error {
		return by.CoreV1().PersistentVolumes().DeleteCollection(t.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "metadata.name=" + pv.Name})
	}
	tests := map[string]struct {
		by   *user
		how  func(*testing.T, *user, *corev1.PersistentVolume) error
		want refusal
	}{
		"its own volume":                           {by: shared.provisioners[alpha], how: one},
		"another node's volume":                    {by: shared.provisioners[beta], how: one, want: volumes(own)},
		"a volume, with a token of no pod":         {by: shared.unbound, how: one, want: volumes(noNode)},
		"all of another node's volumes at once":    {by: shared.privileged[beta], how: all, want: volumes(own)},
		"all volumes at once, by another user":     {by: shared.others, how: all},
		"a volume, by an administrator":            {by: shared.admin, how: one},
		"its own volumes at once, were it granted": {by: shared.privileged[alpha], how: all},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pv := published(t, alpha)
			test.want.want(t, test.how(t, test.by, pv))
			now, err := shared.admin.CoreV1().PersistentVolumes().Get(t.Context(), pv.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatalf("our finalizer did not keep the volume: %v", err)
			}
			if got, want := now.DeletionTimestamp != nil, test.want == allowed; got != want {
				t.Errorf("volume is being deleted: %v, want %v", got, want)
			}
		})
	}
}

// TestForgedOwnership: no provisioner can change volumes that another user has made and marked as a
// provisioner's, but that no provisioner can have made.
func TestForgedOwnership(t *testing.T) {
	t.Parallel()
	const oneHostname = "must be kubernetes.io/hostname In [one hostname]"
	tests := map[string]struct {
		forge func(*corev1.PersistentVolume)
		want  refusal
	}{
		"of two nodes":               {affinity(builders.Term(builders.In(corev1.LabelHostname, alpha, beta))), volumes(oneHostname)},
		"of two nodes, by two terms": {affinity(builders.Term(builders.In(corev1.LabelHostname, alpha)), builders.Term(builders.In(corev1.LabelTopologyZone, "z"))), volumes(oneHostname)},
		"of a zone":                  {affinity(builders.Term(builders.In(corev1.LabelTopologyZone, "z"))), volumes(oneHostname)},
		"of all nodes":               {affinity(builders.Term(builders.Requirement(corev1.LabelHostname, corev1.NodeSelectorOpExists))), volumes(oneHostname)},
		"of a field":                 {affinity(builders.FieldTerm(builders.In("metadata.name", alpha))), volumes(oneHostname)},
		"not local": {func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs.example.com", Path: "/"}}
		}, volumes("spec.local only")},
		"without a label":       {func(pv *corev1.PersistentVolume) { pv.Labels = nil }, volumes("32 hexadecimal digits")},
		"without a provisioner": {func(pv *corev1.PersistentVolume) { delete(pv.Annotations, localpv.ProvisionedByAnnotation) }, volumes("its own volumes only")},
		"without a node":        {func(pv *corev1.PersistentVolume) { delete(pv.Annotations, wellknown.NodeNameAnnotation) }, volumes("its own volumes only")},
		// A node's hostname may change; earlier volumes must remain deletable.
		"of another hostname": {affinity(builders.Term(builders.In(corev1.LabelHostname, "formerly"))), allowed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pv := volume(alpha, alpha)
			test.forge(pv)
			if _, err := shared.admin.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			test.want.want(t, shared.provisioners[alpha].patchVolume(t.Context(), pv.Name, released))
			test.want.want(t, shared.provisioners[alpha].CoreV1().PersistentVolumes().Delete(t.Context(), pv.Name, metav1.DeleteOptions{}))
		})
	}
}

// TestLifecycle: with the rights of the manifests a provisioner creates, watches,
// deletes and releases a volume.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	pv := published(t, beta)
	provisioner := shared.provisioners[beta].CoreV1().PersistentVolumes()
	list, err := provisioner.List(t.Context(), metav1.ListOptions{LabelSelector: localpv.Selector(beta)})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("listed %d volumes: %v", len(list.Items), err)
	}
	watch, err := provisioner.Watch(t.Context(), metav1.ListOptions{LabelSelector: localpv.Selector(beta), ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	if err := provisioner.Delete(t.Context(), pv.Name, uid(pv)); err != nil {
		t.Fatal(err)
	}
	if err := shared.provisioners[alpha].patchVolume(t.Context(), pv.Name, unfinished); err == nil {
		t.Error("another node's provisioner has ended a volume that is being deleted")
	}
	// No controller removes the other finalizer, which comes first.
	if err := shared.admin.patchVolume(t.Context(), pv.Name, `{"metadata":{"finalizers":["stowage.dev/local-volume"]}}`); err != nil {
		t.Fatal(err)
	}
	if err := shared.provisioners[beta].patchVolume(t.Context(), pv.Name, unfinished); err != nil {
		t.Fatal(err)
	}
	if _, err := provisioner.Get(t.Context(), pv.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the volume is still there: %v", err)
	}
}
