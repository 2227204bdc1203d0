// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"sync"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestStatusIsNotShared: the framework modifies the statuses that it gets, from many
// goroutines.
func TestStatusIsNotShared(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), node("b").Obj(), node("c").Obj(), claim("c", "1Gi").Obj(), volume("v", "a", "1Gi").Obj(), volume("w", "b", "1Gi").Obj())
	c := w.begin(pod("p", "c"))
	info := c.info("c")
	var group sync.WaitGroup
	statuses := make([]*fwk.Status, 16)
	for i := range statuses {
		group.Go(func() {
			status := w.Filter(t.Context(), c.state, c.pod, info)
			status.SetPlugin(Name)
			status.AppendReason("mine")
			statuses[i] = status
		})
	}
	group.Wait()
	seen := map[*fwk.Status]bool{}
	for _, status := range statuses {
		if len(status.Reasons()) != 2 || seen[status] {
			t.Errorf("status %p %v is shared", status, status.Reasons())
		}
		seen[status] = true
	}
}

// TestFilterAllocations: Filter runs for every node of every pod.
func TestFilterAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("with the race detector, sync.Pool drops objects")
	}
	w := newTestbed(t, localClass().Obj(), csiClass().Obj(), csiDriver(true), node("a").Obj(), node("b").Obj(), node("c").Obj(), node("d").Obj(), node("e").Obj(),
		capacity("r", "a", "100Gi").Obj(), capacity("s", "b", "100Gi").Obj(), capacity("q", "c", "10Gi").Obj(),
		volume("v", "a", "1Gi").Obj(), volume("w", "a", "2Gi").Obj(), volume("x", "b", "1Gi").Obj(),
		volume("taken", "a", "2Gi").ClaimRef("default", "bound", "pvc-bound").Obj(), claim("bound", "1Gi").Bound("taken").Obj(),
		claim("c", "1Gi").Obj(), claim("d", "2Gi").Obj(), claim("made", "20Gi").Class("csi").Obj())
	tests := map[string]struct {
		claims []string
		node   string
		most   float64
	}{
		"one claim, feasible":              {[]string{"c"}, "a", 0},
		"two claims, feasible":             {[]string{"c", "d"}, "a", 0},
		"a bound claim, feasible":          {[]string{"bound"}, "a", 0},
		"a provisioned claim, feasible":    {[]string{"made"}, "b", 0},
		"all kinds, feasible":              {[]string{"bound", "c", "made"}, "a", 0},
		"one claim, rejected":              {[]string{"c"}, "d", 2},
		"two claims, rejected":             {[]string{"c", "d"}, "b", 2},
		"a bound claim, rejected":          {[]string{"bound"}, "b", 2},
		"a provisioned claim, no capacity": {[]string{"made"}, "c", 2},
		"no claims":                        {nil, "a", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := w.begin(pod("p", tc.claims...))
			info, ctx := c.info(tc.node), t.Context()
			if fits := w.Filter(ctx, c.state, c.pod, info).IsSuccess(); fits != (tc.most == 0) {
				t.Fatalf("fits: %t", fits)
			}
			if got := testing.AllocsPerRun(100, func() { w.Filter(ctx, c.state, c.pod, info) }); got > tc.most {
				t.Errorf("%v allocations, want at most %v", got, tc.most)
			}
		})
	}
}

// TestFilterUsesTheNodeInfo: the node that Filter gets may be newer or older than the
// cache's.
func TestFilterUsesTheNodeInfo(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, csiClass().AllowedTopology("rack", "r1").Obj(), node("a").Obj(), node("b").Label("rack", "r1").Obj(), claim("c", "1Gi").Class("csi").Obj())
	c := w.begin(pod("p", "c"))
	for rack, want := range map[string]bool{"r1": true, "r2": false} {
		for _, name := range []string{"a", "b", "new"} {
			info := framework.NewNodeInfo()
			info.SetNode(node(name).Label("rack", rack).Obj())
			if got := w.Filter(t.Context(), c.state, c.pod, info).IsSuccess(); got != want {
				t.Errorf("node %s in rack %s fits: %t, want %t", name, rack, got, want)
			}
		}
	}
}

// TestWithoutPreFilter: extension points return an error if PreFilter has not run.
func TestWithoutPreFilter(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, node("a").Obj())
	state, p, info, ctx := framework.NewCycleState(), pod("p", "c"), w.info("a"), t.Context()
	_, score := w.Score(ctx, state, p, info)
	other, err := framework.NewPodInfo(pod("q"))
	if err != nil {
		t.Fatal(err)
	}
	for name, status := range map[string]*fwk.Status{
		"Filter":           w.Filter(ctx, state, p, info),
		"PreScore":         w.PreScore(ctx, state, p, nil),
		"Score":            score,
		"Reserve":          w.Reserve(ctx, state, p, "a"),
		"PreBindPreFlight": w.PreFlight(ctx, state, p, "a"),
		"PreBind":          w.PreBind(ctx, state, p, "a"),
		"AddPod":           w.AddPod(ctx, state, p, other, info),
		"RemovePod":        w.RemovePod(ctx, state, p, other, info),
	} {
		if status.Code() != fwk.Error {
			t.Errorf("%s: status %v, want an error", name, status)
		}
	}
}
