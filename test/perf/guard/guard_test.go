// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"stowage.dev/stowage/pkg/scheduling/match"
)

// mostFlat is for the work of a call that must not depend on the size of the cluster. The same
// code was measured at 1.0 to 2.1, since the larger cluster has more misses in the processor's
// caches, which other machines share. A lost index is a figure of 50 and more.
const mostFlat = 4

var flat = Range{Most: mostFlat, Why: "the call takes longer the more volumes the cluster has: an index is not used, or not enough"}

// guards are the recorded ranges. Ratios of time are per call.
var guards = map[string]struct {
	Range
	// over and under make the two sides of the ratio.
	over, under func(*worlds) func(i int)
}{
	"Filter, 1 claim that fits: 100,000 / 1,000 volumes": {flat,
		func(w *worlds) func(int) { return w.large.fits(pod(small), match.Fits) },
		func(w *worlds) func(int) { return w.little.fits(pod(small), match.Fits) }},
	"Filter, 1 claim that is refused: 100,000 / 1,000 volumes": {flat,
		func(w *worlds) func(int) { return w.large.fits(pod(large), match.NoVolume) },
		func(w *worlds) func(int) { return w.little.fits(pod(large), match.NoVolume) }},
	"Filter, 4 claims: 100,000 / 1,000 volumes": {flat,
		func(w *worlds) func(int) { return w.large.fits(four(), match.Fits) },
		func(w *worlds) func(int) { return w.little.fits(four(), match.Fits) }},
	"PreFilter, 4 claims: 100,000 / 1,000 volumes": {flat,
		func(w *worlds) func(int) { return w.large.preFilter(four()) },
		func(w *worlds) func(int) { return w.little.preFilter(four()) }},
	"Score, 4 claims: 100,000 / 1,000 volumes": {flat,
		func(w *worlds) func(int) { return w.large.score(four()) },
		func(w *worlds) func(int) { return w.little.score(four()) }},
	"Reserve and Unreserve, 4 claims: 100,000 / 1,000 volumes": {flat,
		func(w *worlds) func(int) { return w.large.reserve(four()) },
		func(w *worlds) func(int) { return w.little.reserve(four()) }},
	"Filter, claim to be provisioned: 5,000 / 100 storage capacities": {
		Range{Most: mostFlat, Why: "the call takes longer the more storage capacities the cluster has: an index is not used, or not enough"},
		func(w *worlds) func(int) { return w.capacities.fits(pod(made), match.Fits) },
		func(w *worlds) func(int) { return w.few.fits(pod(made), match.Fits) }},
	"Filter, 1 claim, 500 nodes with 10 volumes: stock / ours": {
		Range{Least: 1000, Most: noLimit, Why: "the stock plugin walks over all volumes of the class for each node; if it is not a thousand times slower, ours has become slow or the stock plugin good"},
		func(w *worlds) func(int) { return w.middle.filter(w.middle.stock(), pod(small)) },
		func(w *worlds) func(int) { return w.middle.filter(w.middle.plugin, pod(small)) }},
	"Filter, claim to be provisioned, 5,000 storage capacities: stock / ours": {
		Range{Least: 1000, Most: noLimit, Why: "the stock plugin walks over all storage capacities for each node; if it is not a thousand times slower, ours has become slow or the stock plugin good"},
		func(w *worlds) func(int) { return w.capacities.filter(w.capacities.stock(), pod(made)) },
		func(w *worlds) func(int) { return w.capacities.filter(w.capacities.plugin, pod(made)) }},
}

type worlds struct {
	little, middle, large *cluster // 1,000, 5,000 and 100,000 local volumes
	few, capacities       *cluster // 100 and 5,000 storage capacities
}

func TestRatios(t *testing.T) {
	w := &worlds{local(t, 100), local(t, 500), local(t, 10_000), capacities(t, 100), capacities(t, 5_000)}
	for name, guard := range guards {
		t.Run(name, func(t *testing.T) {
			over, under := compare(guard.over(w), guard.under(w))
			ratio := over.nanos() / under.nanos()
			t.Logf("%.4g (%s): %.0f ns / %.0f ns", ratio, guard.Range, over.nanos(), under.nanos())
			if err := guard.Check(ratio); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAllocations counts the objects that a call of the plugin allocates.
func TestAllocations(t *testing.T) {
	w := local(t, 100)
	for name, guard := range map[string]struct {
		Range
		call func(int)
	}{
		"Filter, 1 claim that fits": {Range{Why: "kube-scheduler calls Filter for hundreds of nodes a pod: none of these calls may make garbage"},
			w.filter(w.plugin, pod(small))},
		"Filter, 4 claims that fit": {Range{Why: "kube-scheduler calls Filter for hundreds of nodes a pod: none of these calls may make garbage"},
			w.filter(w.plugin, four())},
		"Filter, 1 claim that is refused": {Range{Most: 2, Why: "a refusal is a Status and its list of reasons, which the framework writes into, and nothing else"},
			w.filter(w.plugin, pod(large))},
		"Score, 4 claims": {Range{Why: "kube-scheduler calls Score for each feasible node: none of these calls may make garbage"},
			w.score(four())},
	} {
		t.Run(name, func(t *testing.T) {
			i := 0
			allocs := testing.AllocsPerRun(1000, func() { guard.call(i); i++ })
			t.Logf("%g (%s)", allocs, guard.Range)
			if err := guard.Check(allocs); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestALostIndexIsNoticed has a side that walks over all volumes, as a Filter
// without an index would: the range must not let it pass.
func TestALostIndexIsNoticed(t *testing.T) {
	t.Parallel()
	w := &worlds{little: local(t, 100), large: local(t, 2_000)} // a fifth of the guarded size
	walk := func(w *cluster) func(int) {
		nodes := w.some()
		return func(i int) {
			host := nodes[i%len(nodes)].Name
			all, _ := w.factory.Core().V1().PersistentVolumes().Lister().List(labels.Everything())
			found := 0
			for _, pv := range all {
				if pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] == host {
					found++
				}
			}
			if found != 10 {
				t.Fatalf("%d volumes on node %s, want 10", found, host)
			}
		}
	}
	over, under := compare(walk(w.large), walk(w.little))
	ratio := over.nanos() / under.nanos()
	t.Logf("%.4g (%s)", ratio, flat)
	if flat.Check(ratio) == nil {
		t.Errorf("a walk over all volumes passes with a ratio of %.4g", ratio)
	}
}

// filter runs one cycle's Filter on one node after the other.
func (w *cluster) filter(plugin filterer, p *v1.Pod) func(int) {
	w.t.Helper()
	cycle, infos := framework.NewCycleState(), w.infos()
	if _, status := plugin.PreFilter(w.t.Context(), cycle, p, infos); !status.IsSuccess() {
		w.t.Fatalf("PreFilter of %s: %v", plugin.Name(), status)
	}
	ctx, refused := w.t.Context(), p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName == large
	return func(i int) {
		if status := plugin.Filter(ctx, cycle, p, infos[i%len(infos)]); status.IsSuccess() == refused {
			w.t.Fatalf("Filter of %s: %v", plugin.Name(), status)
		}
	}
}

func (w *cluster) preFilter(p *v1.Pod) func(int) {
	ctx, infos := w.t.Context(), w.infos()
	return func(int) {
		if _, status := w.plugin.PreFilter(ctx, framework.NewCycleState(), p, infos); !status.IsSuccess() {
			w.t.Fatalf("PreFilter: %v", status)
		}
	}
}

func (w *cluster) score(p *v1.Pod) func(int) {
	w.t.Helper()
	ctx, cycle, infos := w.t.Context(), framework.NewCycleState(), w.infos()
	if _, status := w.plugin.PreFilter(ctx, cycle, p, infos); !status.IsSuccess() {
		w.t.Fatalf("PreFilter: %v", status)
	}
	return func(i int) {
		if _, status := w.plugin.Score(ctx, cycle, p, infos[i%len(infos)]); !status.IsSuccess() {
			w.t.Fatalf("Score: %v", status)
		}
	}
}

func (w *cluster) reserve(p *v1.Pod) func(int) {
	w.t.Helper()
	ctx, cycle, nodes := w.t.Context(), framework.NewCycleState(), w.some()
	if _, status := w.plugin.PreFilter(ctx, cycle, p, nil); !status.IsSuccess() {
		w.t.Fatalf("PreFilter: %v", status)
	}
	return func(i int) {
		node := nodes[i%len(nodes)].Name
		if status := w.plugin.Reserve(ctx, cycle, p, node); !status.IsSuccess() {
			w.t.Fatalf("Reserve: %v", status)
		}
		w.plugin.Unreserve(ctx, cycle, p, node)
	}
}
