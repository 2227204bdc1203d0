// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"stowage.dev/stowage/pkg/testing/builders"
)

// someModes are access modes that volumes and claims of the fuzz tests have.
var someModes = [][]v1.PersistentVolumeAccessMode{
	{v1.ReadWriteOnce},
	{v1.ReadWriteMany},
	{v1.ReadWriteOnce, v1.ReadWriteMany},
	{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany},
	{v1.ReadWriteOncePod, v1.ReadWriteOnce},
}

// problem is a small assignment problem.
type problem struct {
	requests []*Request
	volumes  []*Volume
}

// randomProblem makes up to 5 requests and 7 volumes with many ties.
func randomProblem(t testing.TB, rng *rand.Rand) problem {
	sizes := []int64{1, 1, 2, 3, 10}
	if rng.IntN(4) == 0 {
		sizes = []int64{1, math.MaxInt64, math.MaxInt64, math.MaxInt64 - 1, 0}
	}
	var p problem
	for i := range 1 + rng.IntN(5) {
		claim := builders.MakePVC(fmt.Sprintf("claim-%d", i)).AccessModes(someModes[rng.IntN(3)]...)
		if rng.IntN(3) == 0 {
			claim.MatchLabel("tier", []string{"gold", "iron"}[rng.IntN(2)])
		}
		pvc := claim.Obj()
		pvc.Spec.Resources.Requests[v1.ResourceStorage] = *resource.NewQuantity(sizes[rng.IntN(len(sizes))], resource.BinarySI)
		r, err := NewRequest(pvc)
		if err != nil {
			t.Fatal(err)
		}
		p.requests = append(p.requests, r)
	}
	for i := range rng.IntN(8) {
		pv := builders.MakePV(fmt.Sprintf("pv-%d", i)).AccessModes(someModes[rng.IntN(len(someModes))]...).
			Label("tier", []string{"gold", "iron", "tin"}[rng.IntN(3)]).Obj()
		pv.Spec.Capacity[v1.ResourceStorage] = *resource.NewQuantity(sizes[rng.IntN(len(sizes))], resource.BinarySI)
		p.volumes = append(p.volumes, NewVolume(pv))
	}
	return p
}

// candidates lists what may serve each request, best first, by brute force.
func (p problem) candidates() [][]*Volume {
	lists := make([][]*Volume, len(p.requests))
	for i, r := range p.requests {
		for _, v := range p.volumes {
			if r.Matches(v) {
				lists[i] = append(lists[i], v)
			}
		}
		slices.SortFunc(lists[i], func(a, b *Volume) int { return compare(r, a, b) })
	}
	return lists
}

// outcome is the objective value of an assignment, computed without the code under test.
type outcome struct {
	served  int
	waste   *big.Int
	surplus int
}

func judge(requests []*Request, result []*Volume) outcome {
	o := outcome{waste: new(big.Int)}
	for i, v := range result {
		if v == nil {
			continue
		}
		o.served++
		o.waste.Add(o.waste, big.NewInt(v.Bytes))
		o.waste.Sub(o.waste, big.NewInt(requests[i].Bytes))
		for _, mode := range v.PV.Spec.AccessModes {
			if !slices.Contains(requests[i].Claim.Spec.AccessModes, mode) {
				o.surplus++
			}
		}
	}
	return o
}

func (o outcome) compare(other outcome) int {
	if o.served != other.served {
		return other.served - o.served
	}
	if c := o.waste.Cmp(other.waste); c != 0 {
		return c
	}
	return o.surplus - other.surplus
}

// bruteForce tries every assignment.
func bruteForce(p problem) outcome {
	result := make([]*Volume, len(p.requests))
	taken := map[*Volume]bool{}
	best := judge(p.requests, result)
	var try func(i int)
	try = func(i int) {
		if i == len(result) {
			if o := judge(p.requests, result); o.compare(best) < 0 {
				best = o
			}
			return
		}
		result[i] = nil
		try(i + 1)
		for _, v := range p.volumes {
			if taken[v] || !p.requests[i].Matches(v) {
				continue
			}
			taken[v], result[i] = true, v
			try(i + 1)
			taken[v], result[i] = false, nil
		}
	}
	try(0)
	return best
}

// FuzzAssign compares Assign, Serve and largeSolver with brute force.
func FuzzAssign(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed, seed*7919+1)
	}
	solver := &Solver{}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		rng := rand.New(rand.NewPCG(a, b))
		p := randomProblem(t, rng)
		want := bruteForce(p)
		candidates := p.candidates()
		before := deepCopy(p)

		result := slices.Clone(solver.Assign(p.requests, candidates))
		got := judge(p.requests, result)
		if got.compare(want) != 0 {
			t.Errorf("Assign: served %d, waste %v, surplus %d; want %d, %v, %d",
				got.served, got.waste, got.surplus, want.served, want.waste, want.surplus)
		}
		checkPossible(t, p, result)

		if diff := cmp.Diff(names(result), names(new(Solver).Assign(p.requests, candidates))); diff != "" {
			t.Errorf("Assign gives different results for equal arguments:\n%s", diff)
		}

		atAnyCost := slices.Clone(solver.Serve(p.requests, candidates))
		for i := range result {
			if (atAnyCost[i] == nil) != (result[i] == nil) {
				t.Errorf("Serve and Assign serve different requests: %q and %q", names(atAnyCost), names(result))
			}
		}
		checkPossible(t, p, atAnyCost)

		largeResult := p.large(candidates)
		if got := judge(p.requests, largeResult); got.served != want.served {
			t.Errorf("for many requests: served %d, want %d", got.served, want.served)
		}
		checkPossible(t, p, largeResult)

		// Neither the order of the volumes nor truncating each list to Width changes the
		// result.
		rng.Shuffle(len(p.volumes), func(i, j int) { p.volumes[i], p.volumes[j] = p.volumes[j], p.volumes[i] })
		again := p.candidates()
		for i := range again {
			again[i] = again[i][:min(len(again[i]), Width(len(p.requests)))]
		}
		if diff := cmp.Diff(names(result), names(solver.Assign(p.requests, again))); diff != "" {
			t.Errorf("Assign with other candidate lists gives other results:\n%s", diff)
		}

		if diff := cmp.Diff(before.objects(), p.objects()); diff != "" {
			t.Errorf("arguments were changed:\n%s", diff)
		}
		for i, list := range p.candidates() {
			if diff := cmp.Diff(names(list), names(candidates[i])); diff != "" {
				t.Errorf("candidates[%d] was changed:\n%s", i, diff)
			}
		}
	})
}

// large assigns with largeSolver, which serves more than MaxExact requests.
func (p problem) large(candidates [][]*Volume) []*Volume {
	s := &Solver{}
	s.load(p.requests, candidates)
	s.large.run(s)
	return s.result
}

func checkPossible(t *testing.T, p problem, result []*Volume) {
	t.Helper()
	taken := map[string]bool{}
	for i, v := range result {
		if v == nil {
			continue
		}
		if taken[v.Name] {
			t.Errorf("volume %s is assigned twice", v.Name)
		}
		taken[v.Name] = true
		if !p.requests[i].Matches(v) {
			t.Errorf("volume %s cannot serve %s", v.Name, p.requests[i].Claim.Name)
		}
	}
}

func names(volumes []*Volume) []string {
	list := []string{}
	for _, v := range volumes {
		if v == nil {
			list = append(list, "")
		} else {
			list = append(list, v.Name)
		}
	}
	return list
}

func deepCopy(p problem) problem {
	var c problem
	for _, r := range p.requests {
		twin := *r
		twin.Claim = r.Claim.DeepCopy()
		c.requests = append(c.requests, &twin)
	}
	for _, v := range p.volumes {
		twin := *v
		twin.PV = v.PV.DeepCopy()
		c.volumes = append(c.volumes, &twin)
	}
	return c
}

// objects returns everything that the problem was made from, by name.
func (p problem) objects() map[string]any {
	all := map[string]any{}
	for _, r := range p.requests {
		all[r.Claim.Name] = []any{r.Claim, r.Bytes, r.AccessModes, r.Class}
	}
	for _, v := range p.volumes {
		all[v.Name] = []any{v.PV, v.Bytes, v.AccessModes, v.Class}
	}
	return all
}
