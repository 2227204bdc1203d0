// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/apis/wellknown"
)

// TestCreateReport: a provisioner creates the pages of its own node's report.
func TestCreateReport(t *testing.T) {
	t.Parallel()
	const own = "its own report only"
	tests := map[string]struct {
		by         *user // nil: gamma's provisioner
		name, node string
		page       int64 // 0: 1
		forge      func(*unstructured.Unstructured)
		want       refusal
	}{
		"its own":                     {name: gamma, node: gamma},
		"its own second page":         {name: gamma + ".page-2", node: gamma, page: 2},
		"its own twelfth page":        {name: gamma + ".page-12", node: gamma, page: 12},
		"its own sixteenth page":      {name: gamma + ".page-16", node: gamma, page: 16},
		"another node's":              {name: beta, node: beta, want: reports(own)},
		"another node's page":         {name: "beta.page-2", node: beta, page: 2, want: reports(own)},
		"under another's name":        {name: "beta.page-2", node: gamma, page: 2, want: reports(own)},
		"about another node":          {name: gamma + ".page-2", node: beta, page: 2, want: reports(own)},
		"a page of a page":            {name: gamma + ".page-2.page-2", node: gamma, page: 2, want: reports(own)},
		"of a node with more name":    {name: gamma + ".org.page-2", node: gamma, page: 2, want: reports(own)},
		"of a node much like its own": {name: "gamma-example.com.page-2", node: gamma, page: 2, want: reports(own)},
		"with retained data acknowledged": {
			name: gamma, node: gamma, want: reports("publish-retained"),
			forge: func(r *unstructured.Unstructured) {
				r.SetAnnotations(map[string]string{wellknown.PublishRetainedAnnotation: "local-disks/a@1"})
			},
		},
		"with another mainboard acknowledged": {
			name: gamma, node: gamma, want: reports("same-machine"),
			forge: func(r *unstructured.Unstructured) {
				r.SetAnnotations(map[string]string{wellknown.SameMachineAnnotation: "m1:m2"})
			},
		},
		"with a tombstone, by which another node would clean a disk": {
			name: gamma, node: gamma, want: reports("without tombstones"),
			forge: func(r *unstructured.Unstructured) {
				stones := []any{map[string]any{"identity": "wwn:1", "state": "Published"}}
				r.Object["spec"] = map[string]any{"nodeName": gamma, "page": int64(1), "tombstones": stones}
			},
		},
		"with the label of tombstones": {
			name: gamma, node: gamma, want: reports("without tombstones"),
			forge: func(r *unstructured.Unstructured) { r.SetLabels(map[string]string{"stowage.dev/tombstones": "true"}) },
		},
		"with a finalizer": {
			name: gamma, node: gamma, want: reports("without finalizers"),
			forge: func(r *unstructured.Unstructured) { r.SetFinalizers([]string{"example.com/held"}) },
		},
		"with an owner": {
			name: gamma, node: gamma, want: reports("ownerReferences"),
			forge: func(r *unstructured.Unstructured) {
				r.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: beta, UID: "1"}})
			},
		},
		"with a token of no pod": {by: shared.unbound, name: gamma, node: gamma, want: reports(noNode)},
		"by an administrator":    {by: shared.admin, name: beta, node: beta},
		"by another user":        {by: shared.others, name: beta, node: beta},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by := shared.provisioners[gamma]
			if test.by != nil {
				by = test.by
			}
			r := report(test.name, test.node, max(test.page, 1))
			if test.forge != nil {
				test.forge(r)
			}
			test.want.want(t, by.createsReport(r)(t.Context()))
		})
	}
}

// TestWriteReport: a provisioner writes the status of its own node's report, and
// neither another's nor the fields of administrators in its own.
func TestWriteReport(t *testing.T) {
	t.Parallel()
	const (
		own    = "its own report only"
		alphas = alpha + ".page-3"
		betas  = beta + ".page-3"
		status = `{"status":{"entries":[]}}`
		answer = `{"status":{"jobs":[{"path":"/mnt/disks/a","attempt":"0","state":"Succeeded"}]}}`
		acked  = `{"metadata":{"annotations":{"stowage.dev/publish-retained":"local-disks/a@1"}}}`
	)
	for name, node := range map[string]string{alphas: alpha, betas: beta} {
		if _, err := shared.provisioners[node].reports().Create(t.Context(), report(name, node, 3), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Alpha's by its name, beta's by its spec.
	if _, err := shared.admin.reports().Create(t.Context(), report("alpha.page-7", beta, 7), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(by *user, name, patch string, sub ...string) func(*testing.T) error {
		return func(t *testing.T) error {
			_, err := by.reports().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, sub...)
			return err
		}
	}
	remove := func(by *user, name string) func(*testing.T) error {
		return func(t *testing.T) error {
			return by.reports().Delete(t.Context(), name, metav1.DeleteOptions{DryRun: dryRun.DryRun})
		}
	}
	tests := map[string]struct {
		do   func(*testing.T) error
		want refusal
	}{
		"its own status":                        {do: patch(shared.provisioners[alpha], alphas, status, "status")},
		"an answer of the controller":           {do: patch(shared.provisioners[alpha], alphas, answer, "status"), want: reports("is written by the controller")},
		"an answer, by the controller":          {do: patch(shared.admin, betas, answer, "status")},
		"another's status":                      {do: patch(shared.provisioners[alpha], betas, status, "status"), want: reports(own)},
		"a status that is another's by spec":    {do: patch(shared.provisioners[alpha], "alpha.page-7", status, "status"), want: reports(own)},
		"a status, with a token of no pod":      {do: patch(shared.unbound, alphas, status, "status"), want: reports(noNode)},
		"an acknowledgement, were it granted":   {do: patch(shared.privileged[alpha], alphas, acked), want: reports("the status only")},
		"another's deletion, were it granted":   {do: remove(shared.privileged[alpha], betas), want: reports(own)},
		"its own deletion, were it granted":     {do: remove(shared.privileged[alpha], alphas)},
		"an acknowledgement by another user":    {do: patch(shared.others, betas, acked)},
		"an acknowledgement, by administrators": {do: patch(shared.admin, alphas, acked)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.want(t, test.do(t))
		})
	}
}
