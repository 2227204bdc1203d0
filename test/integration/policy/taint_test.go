// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	startupTaint  = `{"key":"stowage.dev/provisioner-not-ready","effect":"NoSchedule"}`
	reservedTaint = `{"key":"example.com/reserved","effect":"NoSchedule"}`
)

// taints is a merge patch to these.
func taints(list string) string { return `{"spec":{"taints":[` + list + `]}}` }

// TestNode: on Nodes, a provisioner may only remove the startup taint of its own Node.
func TestNode(t *testing.T) {
	t.Parallel()
	const (
		taintsOnly  = "change the taints only"
		startupOnly = "remove startup taints only"
		nothingElse = "neither create nor delete nodes"
	)
	tests := map[string]struct {
		by    *user  // nil: alpha's provisioner
		node  string // alpha
		patch string
		sub   []string
		want  refusal
	}{
		"removes the startup taint":    {patch: taints(reservedTaint)},
		"changes nothing":              {patch: `{}`},
		"removes all taints":           {patch: taints(""), want: nodes(startupOnly)},
		"removes another taint":        {patch: taints(startupTaint), want: nodes(startupOnly)},
		"adds a taint":                 {patch: taints(startupTaint + "," + reservedTaint + `,{"key":"example.com/more","effect":"NoExecute"}`), want: nodes(startupOnly)},
		"changes a taint's effect":     {patch: taints(reservedTaint + `,{"key":"stowage.dev/provisioner-not-ready","effect":"PreferNoSchedule"}`), want: nodes(startupOnly)},
		"changes a taint's value":      {patch: taints(`{"key":"example.com/reserved","effect":"NoSchedule","value":"x"}`), want: nodes(startupOnly)},
		"adds a label":                 {patch: `{"metadata":{"labels":{"tier":"gold"}}}`, want: nodes(taintsOnly)},
		"changes its hostname":         {patch: `{"metadata":{"labels":{"kubernetes.io/hostname":"beta"}}}`, want: nodes(taintsOnly)},
		"removes its labels":           {patch: `{"metadata":{"labels":null}}`, want: nodes(taintsOnly)},
		"adds an annotation":           {patch: `{"metadata":{"annotations":{"a":"b"}}}`, want: nodes(taintsOnly)},
		"adds a finalizer":             {patch: `{"metadata":{"finalizers":["example.com/held"]}}`, want: nodes(taintsOnly)},
		"gives it an owner":            {patch: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"beta","uid":"1"}]}}`, want: nodes(taintsOnly)},
		"makes it schedulable":         {patch: `{"spec":{"unschedulable":null}}`, want: nodes(taintsOnly)},
		"gives it a provider's ID":     {patch: `{"spec":{"providerID":"cloud://beta"}}`, want: nodes(taintsOnly)},
		"a label with the taint":       {patch: `{"metadata":{"labels":{"tier":"gold"}},"spec":{"taints":[` + reservedTaint + `]}}`, want: nodes(taintsOnly)},
		"another node's startup taint": {node: beta, patch: taints(reservedTaint), want: nodes("writes no other node")},
		"with a token of no pod":       {by: shared.unbound, patch: taints(reservedTaint), want: nodes(noNode)},
		"writes the status":            {by: shared.privileged[alpha], patch: `{"status":{"phase":"Running"}}`, sub: []string{"status"}, want: nodes(nothingElse)},
		"another's taint, by others":   {by: shared.others, node: beta, patch: taints("")},
		"a label, by an administrator": {by: shared.admin, patch: `{"metadata":{"labels":{"tier":"gold"}}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by, node := shared.provisioners[alpha], alpha
			if test.by != nil {
				by = test.by
			}
			if test.node != "" {
				node = test.node
			}
			test.want.want(t, by.patchNode(t.Context(), node, test.patch, test.sub...))
		})
	}
	t.Run("creates one, were it granted", func(t *testing.T) {
		t.Parallel()
		_, err := shared.privileged[alpha].CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "delta"}}, dryRun)
		nodes(nothingElse).want(t, err)
	})
	t.Run("deletes its own, were it granted", func(t *testing.T) {
		t.Parallel()
		err := shared.privileged[alpha].CoreV1().Nodes().Delete(t.Context(), alpha, metav1.DeleteOptions{DryRun: dryRun.DryRun})
		nodes(nothingElse).want(t, err)
	})
}

// TestStartupTaintIsGone: the removal is not refused when it is stored.
func TestStartupTaintIsGone(t *testing.T) {
	t.Parallel()
	node, err := shared.provisioners[gamma].CoreV1().Nodes().Patch(t.Context(), gamma, types.MergePatchType, []byte(taints(reservedTaint)), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key == taintKey {
		t.Errorf("taints are %v", node.Spec.Taints)
	}
}
