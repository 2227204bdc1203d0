// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/testing/builders"
)

// TestFilterDoesNotGrowWithPods: the cost of rejecting a node does not depend on the
// number of its pods, even if some pod has an ephemeral claim that its eviction would
// free. Reading the pods of each node costs a hundred times as much.
func TestFilterDoesNotGrowWithPods(t *testing.T) { // not parallel: it measures time
	const nodes, perNode, most = 500, 60, 10
	machines := make([]string, nodes)
	objects := []runtime.Object{localClass(), claim("large", "5Gi").Obj(), pod("p", "large")}
	for n := range nodes {
		machines[n] = fmt.Sprintf("node-%d", n)
		objects = append(objects, node(machines[n]))
	}
	scratch := claim("", "1Gi").Obj()
	owner := builders.MakePod("owner").Namespace("default").UID("pod-owner").Node(machines[0]).Priority(-1).Ephemeral("scratch", scratch).Obj()
	freed := []runtime.Object{owner, claim("owner-scratch", "1Gi").OwnedBy(owner).Bound("v").Obj(),
		volume("v", machines[0], "1Gi").ClaimRef("default", "owner-scratch", "pvc-owner-scratch").Phase(v1.VolumeBound).Obj()}

	fastest := func(ephemeral bool, extra ...runtime.Object) time.Duration {
		w := newTestbed(t, extender.ModeFull, slices.Concat(objects, extra)...)
		for i := range nodes * perNode {
			p := builders.MakePod(fmt.Sprintf("pod-%d", i)).Namespace("default").Node(machines[i%nodes]).PVC("data")
			if ephemeral {
				p.Ephemeral("scratch", scratch)
			}
			if err := w.indexed.Add(p.Obj()); err != nil {
				t.Fatal(err)
			}
		}
		least := time.Duration(math.MaxInt64)
		for range 20 {
			v := newVerdict(candidates{e: w.Extender, names: machines})
			begin := time.Now()
			err := w.decide(t.Context(), pod("p", "large"), v)
			least = min(least, time.Since(begin))
			if err != nil || len(*v.unresolvable) != nodes {
				t.Fatalf("error %v, %d nodes unresolvable", err, len(*v.unresolvable))
			}
			v.release()
		}
		return least
	}
	without := fastest(false)
	for name, with := range map[string]time.Duration{
		"one pod has an ephemeral claim":            fastest(false, freed...),
		"and all the others have ephemeral volumes": fastest(true, freed...),
	} {
		t.Logf("%s: %v, and %v without", name, with, without)
		if with > most*without {
			t.Errorf("%s: filter takes %v, and %v without", name, with, without)
		}
	}
}
