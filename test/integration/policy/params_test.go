// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/testing/builders"
)

// TestWithoutParameters: without the ConfigMap provisioners create no volumes; other requests
// continue to work, for them and for others. With it they allow the
// names of the reference. No other test runs at the same time.
func TestWithoutParameters(t *testing.T) {
	maps := shared.admin.CoreV1().ConfigMaps(namespace)
	kept, err := maps.Get(t.Context(), params, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pv := published(t, alpha)
	byReference := volume(alpha, alpha)
	byReference.Name = "local-pv-6f7b0c1e"
	if _, err := maps.Patch(t.Context(), params, types.MergePatchType, []byte(`{"data":{"referenceNames":"true"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := eventually(t.Context(), allowed, shared.provisioners[alpha].creates(byReference)); err != nil {
		t.Errorf("under a name of the reference, where that is allowed: %v", err)
	}
	if err := maps.Delete(t.Context(), params, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitTimeout)
		defer cancel()
		again := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: params}, Data: kept.Data}
		if _, err := maps.Create(ctx, again, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := eventually(ctx, allowed, shared.provisioners[gamma].creates(volume(gamma, gammaHost))); err != nil {
			t.Error(err)
		}
	})

	if err := eventually(t.Context(), withoutParams, shared.provisioners[alpha].creates(volume(alpha, alpha))); err != nil {
		t.Fatal(err)
	}
	foreign := builders.MakePV("foreign").Obj()
	foreign.Spec.NodeAffinity = pv.Spec.NodeAffinity
	for what, err := range map[string]error{
		"a volume that is not owned":     shared.admin.creates(foreign)(t.Context()),
		"the binding of an owned volume": shared.others.patchVolume(t.Context(), pv.Name, claimed),
		"its phase":                      shared.others.patchVolume(t.Context(), pv.Name, phase, "status"),
		"a node's taints":                shared.others.patchNode(t.Context(), alpha, taints("")),
		"a node's status":                shared.others.patchNode(t.Context(), alpha, `{"status":{"phase":"Running"}}`, "status"),
		"the end of a volume":            shared.provisioners[alpha].patchVolume(t.Context(), pv.Name, released),
		"its deletion":                   shared.provisioners[alpha].CoreV1().PersistentVolumes().Delete(t.Context(), pv.Name, metav1.DeleteOptions{}),
		"a startup taint":                shared.provisioners[alpha].patchNode(t.Context(), alpha, taints(reservedTaint)),
		"a report":                       shared.provisioners[alpha].createsReport(report("alpha.page-9", alpha, 9))(t.Context()),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
