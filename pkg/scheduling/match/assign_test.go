// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/testing/builders"
)

// TestAssign is rule 6. Greedy matching, smallest claim first, fails or wastes capacity
// in most of these cases.
func TestAssign(t *testing.T) {
	t.Parallel()
	need := func(name, size string) *builders.PVC { return builders.MakePVC(name).Request(size) }
	have := func(name, size string) *builders.PV { return builders.MakePV(name).Capacity(size) }
	for name, tc := range map[string]struct {
		claims []*builders.PVC
		pvs    []*builders.PV
		want   []string // by claim; empty: not served
	}{
		"no claims":  {nil, []*builders.PV{have("a", "1Gi")}, []string{}},
		"no volumes": {[]*builders.PVC{need("a", "1Gi")}, nil, []string{""}},
		"the selector's only volume must not go to the smaller claim": {
			[]*builders.PVC{need("a", "1Gi"), need("b", "2Gi").MatchLabel("tier", "gold")},
			[]*builders.PV{have("p1", "2Gi").Label("tier", "gold"), have("p2", "5Gi")},
			[]string{"p2", "p1"},
		},
		"the shared volume must not go to the claim that needs no sharing": {
			[]*builders.PVC{need("a", "1Gi").AccessModes(rwo), need("b", "1Gi").AccessModes(rwx)},
			[]*builders.PV{have("p1", "1Gi").AccessModes(rwo, rwx), have("p2", "2Gi").AccessModes(rwo)},
			[]string{"p2", "p1"},
		},
		"the result does not depend on the order of the claims": {
			[]*builders.PVC{need("b", "1Gi").AccessModes(rwx), need("a", "1Gi").AccessModes(rwo)},
			[]*builders.PV{have("p1", "1Gi").AccessModes(rwo, rwx), have("p2", "2Gi").AccessModes(rwo)},
			[]string{"p1", "p2"},
		},
		"a chain of three is reassigned": {
			[]*builders.PVC{
				need("a", "1Gi"),
				need("b", "1Gi").MatchExpression("tier", "In", "gold", "iron"),
				need("c", "1Gi").MatchLabel("tier", "gold"),
			},
			[]*builders.PV{
				have("p1", "1Gi").Label("tier", "gold"), have("p2", "2Gi").Label("tier", "iron"), have("p3", "3Gi"),
			},
			[]string{"p3", "p2", "p1"},
		},
		"a large and a small claim, in this order": {
			[]*builders.PVC{need("large", "5Gi"), need("small", "1Gi")},
			[]*builders.PV{have("p1", "5Gi"), have("p2", "10Gi")},
			[]string{"p2", "p1"}, // as good as p1, p2
		},
		"too few volumes: the claim that wastes less is served": {
			[]*builders.PVC{need("small", "1Gi"), need("large", "9Gi")},
			[]*builders.PV{have("p1", "10Gi")},
			[]string{"", "p1"},
		},
		"too few volumes and no difference: the first claim is served": {
			[]*builders.PVC{need("a", "1Gi"), need("b", "1Gi")},
			[]*builders.PV{have("p1", "1Gi")},
			[]string{"p1", ""},
		},
		"serving two with waste is better than one without": {
			[]*builders.PVC{need("a", "1Gi"), need("b", "1Gi").MatchLabel("tier", "gold")},
			[]*builders.PV{have("p1", "1Gi").Label("tier", "gold"), have("p2", "100Ti")},
			[]string{"p2", "p1"},
		},
		"waste counts in total, not for each": {
			[]*builders.PVC{need("a", "1Gi"), need("b", "3Gi")},
			[]*builders.PV{have("p1", "3Gi"), have("p2", "4Gi")},
			[]string{"p2", "p1"}, // as good as p1, p2
		},
		"among equal waste the fewest surplus access modes": {
			[]*builders.PVC{need("a", "1Gi").AccessModes(rwo), need("b", "1Gi").AccessModes(rwo, rwx)},
			[]*builders.PV{
				have("p1", "1Gi").AccessModes(rwo, rwx), have("p2", "1Gi").AccessModes(rwo, rwx, rox),
				have("p3", "1Gi").AccessModes(rwo, rox),
			},
			[]string{"p3", "p1"},
		},
		"all equal: names in the order of the claims": {
			[]*builders.PVC{need("b", "1Gi"), need("a", "1Gi"), need("c", "1Gi")},
			[]*builders.PV{have("p3", "1Gi"), have("p1", "1Gi"), have("p4", "1Gi"), have("p2", "1Gi")},
			[]string{"p1", "p2", "p3"},
		},
		"volumes of the largest size do not overflow": {
			[]*builders.PVC{need("a", "1"), need("b", "1"), need("c", "1").MatchLabel("tier", "gold")},
			[]*builders.PV{
				have("p1", "9223372036854775807").Label("tier", "gold"), have("p2", "9223372036854775807"),
				have("p3", "9223372036854775806").Label("tier", "gold"),
			},
			[]string{"p2", "p3", "p1"}, // as good as p1, p2, p3
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p problem
			for _, b := range tc.claims {
				p.requests = append(p.requests, request(t, b))
			}
			for _, b := range tc.pvs {
				p.volumes = append(p.volumes, NewVolume(b.Obj()))
			}
			result := new(Solver).Assign(p.requests, p.candidates())
			if diff := cmp.Diff(tc.want, names(result)); diff != "" {
				t.Errorf("volumes by claim (-want, +got):\n%s", diff)
			}
		})
	}
}

// TestAssignKnowsVolumesByName: candidate lists may have different pointers to the same
// volume.
func TestAssignKnowsVolumesByName(t *testing.T) {
	t.Parallel()
	r := []*Request{request(t, claim()), request(t, claim()), request(t, claim())}
	var candidates [][]*Volume
	for range r {
		candidates = append(candidates, []*Volume{NewVolume(pv("a").Obj()), NewVolume(pv("b").Capacity("3Gi").Obj())})
	}
	want := []string{"b", "a", ""}
	if diff := cmp.Diff(want, names(new(Solver).Assign(r, candidates))); diff != "" {
		t.Errorf("volumes by claim (-want, +got):\n%s", diff)
	}
}

func TestWidth(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 0, 1: 1, 4: 4, 32: 32, 33: 33, 1000: 1000, 1024: 1024, 4096: 256, 1 << 20: 32} {
		if got := Width(n); got != want {
			t.Errorf("Width(%d): got %d, want %d", n, got, want)
		}
	}
}

// TestSolverIsReusable: a Solver that was used before gives the same results as a new
// one, whatever the sizes before.
func TestSolverIsReusable(t *testing.T) {
	t.Parallel()
	used := &Solver{}
	for seed := range uint64(200) {
		p := randomProblem(t, rand.New(rand.NewPCG(seed, 9)))
		candidates := p.candidates()
		if seed%20 == 0 {
			requests, many := contested(t, 40, 60)
			used.Assign(requests, many)
		}
		want := names(new(Solver).Assign(p.requests, candidates))
		if diff := cmp.Diff(want, names(used.Assign(p.requests, candidates))); diff != "" {
			t.Fatalf("seed %d (-new, +used):\n%s", seed, diff)
		}
	}
}

// contested makes n requests for m volumes, where request i competes for volumes that the
// requests before it prefer, so that most have to be reassigned.
func contested(t testing.TB, n, m int) ([]*Request, [][]*Volume) {
	var p problem
	for i := range m {
		v := NewVolume(builders.MakePV(fmt.Sprintf("pv-%05d", i)).Obj())
		v.Bytes = int64(1 + i)
		p.volumes = append(p.volumes, v)
	}
	candidates := make([][]*Volume, n)
	for i := range n {
		r := request(t, builders.MakePVC(fmt.Sprintf("claim-%d", i)).Request("1"))
		p.requests = append(p.requests, r)
		candidates[i] = p.volumes[:max(m-i, 1)]
	}
	return p.requests, candidates
}

// TestManyClaims: above MaxExact as many as possible are served, and a pod of a thousand
// claims does not stall the scheduler.
func TestManyClaims(t *testing.T) {
	for name, tc := range map[string]struct{ claims, volumes int }{
		"one more than is exact":          {MaxExact + 1, MaxExact + 1},
		"a volume for each":               {1000, 1000},
		"many more volumes than claims":   {1000, 5000},
		"many more claims than volumes":   {1000, 10},
		"more claims than are considered": {3000, 3000},
		"so many that Width is minimal":   {40_000, 30},
	} {
		t.Run(name, func(t *testing.T) {
			requests, candidates := contested(t, tc.claims, tc.volumes)
			solver := &Solver{}
			start := time.Now()
			result := solver.Assign(requests, candidates)
			took := time.Since(start)

			taken, served := map[string]bool{}, 0
			for i, v := range result {
				if v == nil {
					continue
				}
				served++
				if taken[v.Name] || !slices.Contains(candidates[i], v) {
					t.Fatalf("volume %s cannot be assigned to claim %d", v.Name, i)
				}
				taken[v.Name] = true
			}
			want := min(tc.claims, tc.volumes)
			if tc.claims <= 1024 && served != want {
				t.Errorf("served %d, want %d", served, want)
			}
			if served == 0 {
				t.Error("nothing was served")
			}
			t.Logf("%d claims, %d volumes: served %d in %v", tc.claims, tc.volumes, served, took)
			// A multiple of the usual time, for slow and busy machines.
			if took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestMaxExactClaimsInConflict: the largest exact assignment, with inputs that reassign
// most requests, serves all with the least waste.
func TestMaxExactClaimsInConflict(t *testing.T) {
	requests, candidates := contested(t, MaxExact, MaxExact)
	start := time.Now()
	result := new(Solver).Assign(requests, candidates)
	took := time.Since(start)
	for i, v := range result {
		if v == nil {
			t.Fatalf("claim %d is not served", i)
		}
		if want := fmt.Sprintf("pv-%05d", MaxExact-1-i); v.Name != want {
			t.Errorf("claim %d: got %s, want %s", i, v.Name, want)
		}
	}
	if took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestNoAllocations(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	pool := &Pool{}
	pool.IndexLabel("tier")
	for i := range 2000 {
		v := randomPoolVolume(rng, 1<<30)
		v.Name = fmt.Sprintf("pv-%d", i)
		v.AccessModes = readWriteOnce // sorting volumes of several kinds allocates once
		pool.Insert(v)
	}
	plain := request(t, builders.MakePVC("data").Request("2"))
	selecting := request(t, builders.MakePVC("data").Request("2").MatchLabel("tier", "b"))
	dst := make([]*Volume, 0, 8)
	requests, candidates := contested(t, 4, 4)
	solver := &Solver{}
	for name, call := range map[string]func(){
		"Serves":                   func() { pool.Serves(plain) },
		"Cheapest":                 func() { pool.Cheapest(plain, 4, dst) },
		"Cheapest with a selector": func() { pool.Cheapest(selecting, 4, dst) },
		"Assign":                   func() { solver.Assign(requests, candidates) },
		"Serve":                    func() { solver.Serve(requests, candidates) },
	} {
		if got := testing.AllocsPerRun(100, call); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	r := request(t, builders.MakePVC("data").Request("0"))
	big := NewVolume(builders.MakePV("big").Obj())
	big.Bytes = math.MaxInt64
	var sum cost
	for range MaxExact {
		sum = sum.plus(costOf(r, big))
	}
	if sum.compare(cost{}) <= 0 {
		t.Errorf("the sum of many large wastes is not positive: %+v", sum)
	}
	for range MaxExact {
		sum = sum.minus(costOf(r, big))
	}
	if sum != (cost{}) {
		t.Errorf("adding and subtracting the same leaves %+v", sum)
	}
	asked := request(t, builders.MakePVC("data").AccessModes(v1.ReadWriteMany))
	asked.Bytes = math.MaxInt64
	small := NewVolume(builders.MakePV("small").Obj())
	small.Bytes = math.MinInt64
	if c := costOf(asked, small); c.compare(cost{}) >= 0 || c.plus(costOf(r, big)).compare(cost{}) >= 0 {
		t.Errorf("a negative difference does not sort before zero: %+v", c)
	}
}
