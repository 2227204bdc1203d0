// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// localDisk is a LocalDisk.
func localDisk(name, node string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "stowage.dev/v1alpha1",
		"kind":       "LocalDisk",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"nodeName": node},
	}}
}

// TestCreateDisk: a provisioner creates the disks of its own node.
func TestCreateDisk(t *testing.T) {
	t.Parallel()
	const own, bare = "its own disks only", "with no owner but their Node"
	owned := func(kind, name string, more ...func(*metav1.OwnerReference)) func(*unstructured.Unstructured) {
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: "1"}
		for _, change := range more {
			change(&owner)
		}
		return func(d *unstructured.Unstructured) { d.SetOwnerReferences([]metav1.OwnerReference{owner}) }
	}
	tests := map[string]struct {
		by         *user // nil: gamma's provisioner
		name, node string
		forge      func(*unstructured.Unstructured)
		want       refusal
	}{
		"the first":                  {name: gamma + ".00", node: gamma},
		"the last":                   {name: gamma + ".ff", node: gamma},
		"with its Node as owner":     {name: gamma + ".00", node: gamma, forge: owned("Node", gamma)},
		"another node's":             {name: beta + ".00", node: beta, want: localDisks(own)},
		"with another Node as owner": {name: gamma + ".00", node: gamma, forge: owned("Node", beta), want: localDisks(bare)},
		"with another kind as owner": {name: gamma + ".00", node: gamma, forge: owned("Pod", gamma), want: localDisks(bare)},
		"with a finalizer":           {name: gamma + ".00", node: gamma, forge: func(d *unstructured.Unstructured) { d.SetFinalizers([]string{"example.com/held"}) }, want: localDisks(bare)},
		"with a label":               {name: gamma + ".00", node: gamma, forge: func(d *unstructured.Unstructured) { d.SetLabels(map[string]string{"a": "b"}) }, want: localDisks(bare)},
		"with an annotation":         {name: gamma + ".00", node: gamma, forge: func(d *unstructured.Unstructured) { d.SetAnnotations(map[string]string{"a": "b"}) }, want: localDisks(bare)},
		"with a token of no pod":     {by: shared.unbound, name: gamma + ".00", node: gamma, want: localDisks(noNode)},
		"by an administrator":        {by: shared.admin, name: beta + ".00", node: beta},
		"with a Node that would stay until it is gone": {
			name: gamma + ".00", node: gamma, want: localDisks(bare),
			forge: owned("Node", gamma, func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = new(true) }),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := shared.provisioners[gamma]
			if test.by != nil {
				by = test.by
			}
			d := localDisk(test.name, test.node)
			if test.forge != nil {
				test.forge(d)
			}
			_, err := by.disks().Create(t.Context(), d, dryRun)
			test.want.want(t, err)
		})
	}
}

// TestWriteDisk: a provisioner writes the status of its own node's disks, and nothing else.
func TestWriteDisk(t *testing.T) {
	t.Parallel()
	const (
		own    = "its own disks only"
		alphas = alpha + ".07"
		betas  = beta + ".07"
		status = `{"status":{"state":"Eligible"}}`
		label  = `{"metadata":{"labels":{"a":"b"}}}`
	)
	for name, node := range map[string]string{alphas: alpha, betas: beta} {
		if _, err := shared.provisioners[node].disks().Create(t.Context(), localDisk(name, node), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch := func(by *user, name, patch string, sub ...string) func(*testing.T) error {
		return func(t *testing.T) error {
			_, err := by.disks().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun.DryRun}, sub...)
			return err
		}
	}
	remove := func(by *user, name string) func(*testing.T) error {
		return func(t *testing.T) error {
			return by.disks().Delete(t.Context(), name, metav1.DeleteOptions{DryRun: dryRun.DryRun})
		}
	}
	tests := map[string]struct {
		do   func(*testing.T) error
		want refusal
	}{
		"its own status":                      {do: patch(shared.privileged[alpha], alphas, status, "status")},
		"another's status":                    {do: patch(shared.privileged[alpha], betas, status, "status"), want: localDisks(own)},
		"its own label, were it granted":      {do: patch(shared.privileged[alpha], alphas, label), want: localDisks("the status only")},
		"another's deletion, were it granted": {do: remove(shared.privileged[alpha], betas), want: localDisks(own)},
		"its own deletion, were it granted":   {do: remove(shared.privileged[alpha], alphas)},
		"a label, by an administrator":        {do: patch(shared.admin, betas, label)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.want(t, test.do(t))
		})
	}
	provisioner := shared.provisioners[beta].disks()
	if got, err := provisioner.Get(t.Context(), betas, metav1.GetOptions{}); err != nil || got.GetName() != betas {
		t.Errorf("get %s: %v, error %v", betas, got, err)
	}
	// The API server would compare a list by node with the objects of all nodes.
	if _, err := provisioner.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list: error %v, want Forbidden", err)
	}
}
