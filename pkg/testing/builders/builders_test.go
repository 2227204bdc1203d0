// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package builders_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
)

func TestObjIsACopy(t *testing.T) {
	t.Parallel()
	template := builders.MakePV("pv").Label("a", "1").Zone("z1")
	first := template.Obj()
	second := template.Label("a", "2").Capacity("5Gi").Zone("z2").Obj()
	if first.Labels["a"] != "1" || second.Labels["a"] != "2" {
		t.Errorf("labels are shared between objects of one builder: %v, %v", first.Labels, second.Labels)
	}
	zone := func(pv *v1.PersistentVolume) string {
		return pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	}
	if zone(first) != "z1" || zone(second) != "z2" {
		t.Errorf("node affinity is shared between objects of one builder: %s, %s", zone(first), zone(second))
	}
}

func TestBoundClaimIsWhatThePVControllerWrites(t *testing.T) {
	t.Parallel()
	pvc := builders.MakePVC("data").Class("local").Bound("pv-1").Obj()
	if pvc.Spec.VolumeName != "pv-1" || pvc.Annotations["pv.kubernetes.io/bind-completed"] != "yes" || pvc.Status.Phase != v1.ClaimBound {
		t.Errorf("claim is not fully bound: %+v", pvc)
	}
}
