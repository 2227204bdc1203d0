// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestClaimRefOfStoppedScheduler: a scheduler ends while its request to assign a volume to a claim
// is in flight, its successor binds the claim to another, and then the request
// arrives. The PV controller releases the volume, for the claimRef is marked as not chosen
// by the user.
func TestClaimRefOfStoppedScheduler(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a"))
	e.CreatePVs(e.LocalPV("chosen", "a"))
	e.CreatePVC(e.PVC("claim"))
	e.WaitScheduled(e.CreatePod(e.Pod("pod").PVC("claim")))
	claim := e.WaitBound("claim", "chosen")
	e.CreatePVs(e.LocalPV("late", "a"))

	binding := plan.Binding{Claim: claim, Volume: e.SeenPV("late")}
	late, change, why := binding.ClaimVolume(e.SeenPV("late"))
	if !change || why != nil {
		t.Fatalf("the late claimRef changes the volume: %t; %v", change, why)
	}
	written, err := e.Client.CoreV1().PersistentVolumes().Update(e.Context(), late, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.WaitPV("late", "to name the claim, which has another volume", func(v *v1.PersistentVolume) bool {
		return v.ResourceVersion != late.ResourceVersion
	})
	e.WaitPV("late", "to be free again", func(v *v1.PersistentVolume) bool {
		return v.ResourceVersion != written.ResourceVersion && v.Spec.ClaimRef == nil && v.Status.Phase == v1.VolumeAvailable
	})
	wantConsistent(e)
}
