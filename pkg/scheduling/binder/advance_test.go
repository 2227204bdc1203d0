// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder_test

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// TestAdvance: repeated calls write only what needs no provisioner. The rest is written
// when the volume exists.
func TestAdvance(t *testing.T) {
	t.Parallel()
	c := newCluster(t, claim("a"), claim("p"), volume("pv-a"))
	b := c.binder(binder.Direct)
	for range 2 {
		var waiting *binder.ProvisioningError
		err := b.Advance(t.Context(), c.plan("a=pv-a", "p+csi"))
		if !errors.As(err, &waiting) || len(waiting.Waiting) != 1 || !strings.Contains(err.Error(), "default/p") || !strings.Contains(err.Error(), "csi") {
			t.Fatalf("error %v, want that claim p waits for provisioner csi", err)
		}
		if got := c.state("a", "pv-a"); got != " Pending a:uid-a Available" && got != " Pending a:uid-a Bound" {
			t.Fatalf("a: %s, want its volume claimed", got)
		}
		if got := c.Claim("default", "p").Annotations[plan.AnnSelectedNode]; got != "n1" {
			t.Fatalf("selected node %q", got)
		}
	}
	c.provision(v1.VolumeBound)
	if err := b.Advance(t.Context(), c.plan("a=pv-a", "p+csi")); err != nil {
		t.Fatal(err)
	}
	if got := c.state("a", "pv-a"); got != bound {
		t.Errorf("a: %s", got)
	}
	if got := c.state("p", "pv-p"); got != "pv-p Bound p:uid-p Bound" {
		t.Errorf("p: %s", got)
	}
}

// TestAdvanceUndoes: Advance undoes its writes after a failure, as Bind does.
func TestAdvanceUndoes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, claim("a"), claim("b"), volume("pv-a"), volume("pv-b").ClaimRef("default", "other", "uid-other"))
	if got := failure(c.binder(binder.Direct).Advance(t.Context(), c.plan("a=pv-a", "b=pv-b"))); got != plan.VolumeClaimed {
		t.Errorf("failure %s, want %s", got, plan.VolumeClaimed)
	}
	if got := c.state("a", "pv-a"); got != " Pending free Available" {
		t.Errorf("a: %s, want it as it was", got)
	}
}
