// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// sizes are the numbers of volumes that each benchmark runs with: the results
// must not depend on them.
var sizes = []int{1_000, 10_000, 100_000, 1_000_000}

// once creates a testbed at its first use; later benchmarks share it.
func once(b *testing.B, kind string, volumes int, build func(*testbed, int)) *testbed {
	b.Helper()
	key := fmt.Sprint(kind, volumes)
	if testbeds[key] == nil {
		testbeds[key] = newTestbed(b, wffc("local"))
		build(testbeds[key], volumes)
	}
	w := *testbeds[key]
	w.t = b
	return &w
}

var testbeds = map[string]*testbed{}

// localTestbed has ten local volumes per node: 10Gi, 20Gi … 100Gi.
func localTestbed(w *testbed, volumes int) {
	for n := range volumes / 10 {
		name := "node-" + strconv.Itoa(n)
		w.put(node(name))
		for i := range 10 {
			w.put(localPV(fmt.Sprintf("pv-%d-%d", n, i), name, strconv.Itoa(10*(i+1))+"Gi").Obj())
		}
	}
}

// zonalTestbed has three zones of 100 nodes; one volume in ten is of tier gold.
func zonalTestbed(w *testbed, volumes int) {
	for n := range 300 {
		name := "node-" + strconv.Itoa(n)
		w.put(builders.MakeNode(name).Hostname(name).Zone("zone-" + strconv.Itoa(n%3)).Obj())
	}
	for i := range volumes {
		pv := localPV("pv-"+strconv.Itoa(i), "", strconv.Itoa(1+i%500)+"Gi").Zone("zone-" + strconv.Itoa(i%3))
		if i%10 == 0 {
			pv.Label("tier", "gold")
		}
		w.put(pv.Obj())
	}
}

// capacityTestbed has a CSIStorageCapacity of 10Gi for each node.
func capacityTestbed(w *testbed, objects int) {
	w.put(dynamic("made", "csi"), tracked("csi"))
	for i := range objects {
		name := "node-" + strconv.Itoa(i)
		w.put(node(name), builders.MakeCapacity("cap-"+name, "made").Hostname(name).Capacity("10Gi").Obj())
	}
}

func nodesOf(w *testbed) []*v1.Node {
	var nodes []*v1.Node
	for _, o := range w.factory.Core().V1().Nodes().Informer().GetStore().List() {
		nodes = append(nodes, o.(*v1.Node))
	}
	return nodes
}

func benchmarkFits(b *testing.B, w *testbed, p *v1.Pod, want match.ReasonCode) {
	nodes, d := nodesOf(w), w.demand(p)
	b.ReportAllocs()
	defer reportCPU(b)()
	i := 0
	for b.Loop() {
		if got := w.Fits(d, nodes[i%len(nodes)]).Code; got != want {
			b.Fatalf("Fits returns %q, want %q", got, want)
		}
		i++
	}
}

// BenchmarkFits is the cost of Filter per node.
func BenchmarkFits(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("volumes=%d", size), func(b *testing.B) {
			w := once(b, "local", size, localTestbed)
			w.put(pvc("one", "15Gi").Obj(), pvc("huge", "1Ti").Obj())
			for i := range 4 {
				w.put(pvc("c"+strconv.Itoa(i), strconv.Itoa(15*(i+1))+"Gi").Obj(), pvc("same"+strconv.Itoa(i), "45Gi").Obj())
			}
			b.Run("claims=1", func(b *testing.B) { benchmarkFits(b, w, pod("p", "one"), match.Fits) })
			b.Run("claims=1,refused", func(b *testing.B) { benchmarkFits(b, w, pod("p", "huge"), match.NoVolume) })
			b.Run("claims=4", func(b *testing.B) { benchmarkFits(b, w, pod("p", "c0", "c1", "c2", "c3"), match.Fits) })
			b.Run("claims=4,rivals", func(b *testing.B) {
				benchmarkFits(b, w, pod("p", "same0", "same1", "same2", "same3"), match.Fits)
			})
		})
	}
}

// BenchmarkFitsZonal is the cost of Filter with segments as large as a
// zone and a label selector.
func BenchmarkFitsZonal(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("volumes=%d", size), func(b *testing.B) {
			w := once(b, "zonal", size, zonalTestbed)
			w.put(pvc("gold", "20Gi").MatchLabel("tier", "gold").Obj(), pvc("any", "20Gi").Obj())
			b.Run("selector", func(b *testing.B) { benchmarkFits(b, w, pod("p", "gold"), match.Fits) })
			b.Run("claims=2", func(b *testing.B) { benchmarkFits(b, w, pod("p", "gold", "any"), match.Fits) })
		})
	}
}

// BenchmarkFitsCapacity is the cost of Filter for a claim to be provisioned,
// with a CSIStorageCapacity object for each node.
func BenchmarkFitsCapacity(b *testing.B) {
	for _, objects := range []int{500, 5_000, 50_000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			w := once(b, "capacity", objects, capacityTestbed)
			w.put(pvc("fits", "5Gi").Class("made").Obj(), pvc("huge", "50Gi").Class("made").Obj())
			b.Run("fits", func(b *testing.B) { benchmarkFits(b, w, pod("p", "fits"), match.Fits) })
			b.Run("refused", func(b *testing.B) { benchmarkFits(b, w, pod("p", "huge"), match.NotEnoughSpace) })
		})
	}
}

// BenchmarkDemand is the cost of PreFilter: compiling the claims and narrowing
// the nodes.
func BenchmarkDemand(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("volumes=%d", size), func(b *testing.B) {
			w := once(b, "local", size, localTestbed)
			w.put(pvc("one", "15Gi").Obj(), pvc("gold", "20Gi").MatchLabel("tier", "gold").Obj())
			for i := range 4 {
				w.put(pvc("c"+strconv.Itoa(i), strconv.Itoa(15*(i+1))+"Gi").Obj())
			}
			for name, claims := range map[string][]string{"claims=1": {"one"}, "claims=4": {"c0", "c1", "c2", "c3"}, "selector": {"gold"}} {
				b.Run(name, func(b *testing.B) {
					p := pod("p", claims...)
					w.demand(p) // the first use of a selector indexes its labels
					b.ReportAllocs()
					defer reportCPU(b)()
					for b.Loop() {
						if _, reason := w.Nodes(w.demand(p)); reason.Code != match.Fits {
							b.Fatal(reason)
						}
					}
				})
			}
		})
	}
}

// BenchmarkReserve is the cost of Reserve and Release.
func BenchmarkReserve(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("volumes=%d", size), func(b *testing.B) {
			local, zonal := once(b, "local", size, localTestbed), once(b, "zonal", size, zonalTestbed)
			local.put(pvc("one", "15Gi").Obj())
			zonal.put(pvc("gold", "20Gi").MatchLabel("tier", "gold").Obj())
			for i := range 4 {
				local.put(pvc("same"+strconv.Itoa(i), "45Gi").Obj())
			}
			benchmarkReserve(b, "claims=1", local, pod("p", "one"))
			b.Run("listener", func(b *testing.B) {
				defer local.OnRelease(func(func() []*v1.Pod) {})()
				benchmarkReserve(b, "claims=1", local, pod("p", "one"))
			})
			benchmarkReserve(b, "claims=4,rivals", local, pod("p", "same0", "same1", "same2", "same3"))
			benchmarkReserve(b, "zonal,selector", zonal, pod("p", "gold"))
		})
	}
}

func benchmarkReserve(b *testing.B, name string, w *testbed, p *v1.Pod) {
	b.Run(name, func(b *testing.B) {
		nodes, d := nodesOf(w), w.demand(p)
		b.ReportAllocs()
		defer reportCPU(b)()
		i := 0
		for b.Loop() {
			if _, reason := w.Reserve(d, nodes[i%len(nodes)].Name); reason.Code != match.Fits {
				b.Fatal(reason)
			}
			w.Release(p.UID)
			i++
		}
	})
}

// BenchmarkDemandSelector compiles a pod's claims, as each event does for all waiting pods,
// with a claim whose selector has that many values of one label.
func BenchmarkDemandSelector(b *testing.B) {
	for _, values := range []int{0, 10, 20_000} {
		b.Run(fmt.Sprint("values=", values), func(b *testing.B) {
			var tiers []string
			for i := range values {
				tiers = append(tiers, "tier-"+strconv.Itoa(i))
			}
			c := pvc("c", "1Gi")
			if values > 0 {
				c.MatchExpression("tier", "In", tiers...)
			}
			w := newTestbed(b, node("a"), wffc("local"), c.Obj())
			p := pod("p", "c")
			b.ReportAllocs()
			for b.Loop() {
				w.demand(p)
			}
		})
	}
}

// TestFitsDoesNotGrow: the cost of Filter does not depend on the number of volumes or
// CSIStorageCapacity objects of other nodes. A hundred times as many may
// take ten times as long at most, since a smaller part of them is in the
// processor's caches; reading all of them takes a hundred times as long.
func TestFitsDoesNotGrow(t *testing.T) { // not parallel: it measures time
	const few, factor, most = 100, 100, 10
	for name, tc := range map[string]struct {
		build func(w *testbed, size int)
		class string
		size  string
		want  match.ReasonCode
	}{
		"volumes, one fits":           {localTestbed, "local", "15Gi", match.Fits},
		"volumes, none fits":          {localTestbed, "local", "1Ti", match.NoVolume},
		"capacity objects, one fits":  {capacityTestbed, "made", "5Gi", match.Fits},
		"capacity objects, none fits": {capacityTestbed, "made", "50Gi", match.NotEnoughSpace},
	} {
		t.Run(name, func(t *testing.T) {
			fastest := func(size int) time.Duration {
				w := newTestbed(t, wffc("local"))
				tc.build(w, size)
				w.put(pvc("c", tc.size).Class(tc.class).Obj())
				nodes, demand := nodesOf(w), w.demand(pod("p", "c"))
				least := time.Duration(math.MaxInt64)
				for i := range 20_000 {
					begin := time.Now()
					reason := w.Fits(demand, nodes[i%len(nodes)])
					least = min(least, time.Since(begin))
					if reason.Code != tc.want {
						t.Fatalf("Fits returns %q, want %q", reason.Code, tc.want)
					}
				}
				return least
			}
			small, large := fastest(few), fastest(factor*few)
			t.Logf("%v with %d, %v with %d", small, few, large, factor*few)
			if large > most*max(small, 100*time.Nanosecond) {
				t.Errorf("Fits takes %v with %d, and %v with %d", small, few, large, factor*few)
			}
		})
	}
}
