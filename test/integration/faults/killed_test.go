// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestSchedulerKilled: the scheduler's process is killed as soon as its writes
// show, again and again, between the first write to a pod's volumes and the
// last.
func TestSchedulerKilled(t *testing.T) {
	t.Parallel()
	campaign.Begin(t)
	pods, rounds := campaign.Scale(30, 120), campaign.Scale(2, 6)
	for _, mode := range []string{"Direct", "PVController"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			e.Timeout = waitTimeout
			addNodes(e, 10)
			addVolumes(e, 10, 3*pods)
			flood := createFlood(e, e.Name("scheduler"), pods)
			options := sample(e, "bindingMode: Direct", "bindingMode: "+mode,
				"  qps: 1000\n  burst: 2000\n", "  qps: 50\n  burst: 50\n") // or it would be done too soon
			halves := 0
			for round := range rounds {
				p := startProcess(e, options)
				want := 2 * pods * (round + 1) / (rounds + 1)
				e.Wait("the scheduler to write", func() bool { return len(claimed(e)) >= want })
				if err := p.Kill(); err != nil {
					t.Fatal(err)
				}
				half := halfBound(e)
				t.Logf("killed with %d volumes claimed, %d pods placed, %d claimRefs more than bound claims",
					len(claimed(e)), scheduled(e, flood), half)
				halves = max(halves, half)
			}
			if halves <= 0 {
				t.Error("the scheduler was never killed between two writes of a binding")
			}
			startProcess(e, options)
			wantSettled(e, flood...)
			if n := len(claimed(e)); n != 2*pods {
				t.Errorf("%d volumes are claimed, want %d: one for each claim\n%s", n, 2*pods, e.Dump())
			}
		})
	}
}

// claimed are the Env's volumes that have a claimRef.
func claimed(e *fixture.Env) []*v1.PersistentVolume {
	var found []*v1.PersistentVolume
	for _, volume := range e.SeenPVs() {
		if volume.Spec.ClaimRef != nil {
			found = append(found, volume)
		}
	}
	return found
}

// halfBound is how many more volumes have a claimRef than claims a volume.
func halfBound(e *fixture.Env) int {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	claims, err := e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.T.Fatal(err)
	}
	bound := 0
	for _, claim := range claims.Items {
		if claim.Spec.VolumeName != "" {
			bound++
		}
	}
	return len(claimed(e)) - bound
}
