// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/testing/builders"
)

// poolStock is the volumes of a pool. The label "tier" is their node.
type poolStock struct {
	*Pool
	requests []Ordered
}

func (s poolStock) Serves(i int, v *Volume) bool {
	r := s.requests[i]
	return r.Matches(v) && (r.Node == "" || r.Node == v.labels()["tier"])
}

func (s poolStock) Cheapest(i, k int, dst []*Volume) []*Volume {
	for v := range s.Each(s.requests[i].Request) {
		if k > 0 && s.Serves(i, v) {
			dst, k = append(dst, v), k-1
		}
	}
	return dst
}

func (s poolStock) Take(v *Volume)   { s.Remove(v) }
func (s poolStock) Return(v *Volume) { s.Insert(v) }

func stockOf(requests []Ordered, volumes []*Volume) poolStock {
	s := poolStock{&Pool{}, requests}
	for _, v := range volumes {
		s.Insert(v)
	}
	return s
}

// inOrderBest is the best outcome of all assignments, by brute force: the earliest requests are
// served, then the outcome is the best.
func inOrderBest(s poolStock, volumes []*Volume, limit int) (served []bool, best outcome) {
	requests := make([]*Request, len(s.requests))
	for i, r := range s.requests {
		requests[i] = r.Request
	}
	result, taken := make([]*Volume, len(requests)), map[*Volume]bool{}
	var try func(i, left int)
	try = func(i, left int) {
		if i == len(result) {
			now, o := whichServed(result), judge(requests, result)
			if c := slices.CompareFunc(now, served, compareServed); served == nil || c < 0 || c == 0 && o.compare(best) < 0 {
				served, best = now, o
			}
			return
		}
		for _, v := range volumes {
			if left > 0 && !taken[v] && s.Serves(i, v) {
				taken[v], result[i] = true, v
				try(i+1, left-1)
				taken[v], result[i] = false, nil
			}
		}
		try(i+1, left)
	}
	try(0, limit)
	return served, best
}

func whichServed(result []*Volume) []bool {
	served := make([]bool, len(result))
	for i, v := range result {
		served[i] = v != nil
	}
	return served
}

func compareServed(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// FuzzAssignInOrder compares AssignInOrder with brute force.
func FuzzAssignInOrder(f *testing.F) {
	for seed := range uint64(600) {
		f.Add(seed, seed*7919+1)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		rng := rand.New(rand.NewPCG(a, b))
		p := randomProblem(t, rng)
		alike := rng.IntN(3) == 0
		requests := make([]Ordered, len(p.requests))
		for i, r := range p.requests {
			if requests[i].Request = r; alike {
				twin := *r
				twin.AccessModes, twin.Selector = p.requests[0].AccessModes, nil
				twin.Claim.Spec.AccessModes = p.requests[0].Claim.Spec.AccessModes
				requests[i].Request = &twin
			} else if rng.IntN(4) == 0 {
				requests[i].Node = "iron"
			}
		}
		limit := 1 + rng.IntN(2*len(requests))
		s := stockOf(requests, p.volumes)
		want, best := inOrderBest(s, p.volumes, limit)

		result := AssignInOrder(requests, s, limit)
		if diff := cmp.Diff(want, whichServed(result)); diff != "" {
			t.Fatalf("served (-want +got):\n%s", diff)
		}
		compiled := make([]*Request, len(requests))
		for i, r := range requests {
			compiled[i] = r.Request
		}
		if got := judge(compiled, result); got.compare(best) != 0 {
			t.Errorf("waste %v, surplus %d; want %v, %d", got.waste, got.surplus, best.waste, best.surplus)
		}
		left := len(p.volumes)
		for i, v := range result {
			if v == nil {
				continue
			}
			if left--; !s.Serves(i, v) || s.Pool.Remove(v) {
				t.Errorf("volume %s does not serve request %d, or is not taken", v.Name, i)
			}
		}
		if s.Len() != left {
			t.Errorf("%d volumes are left, want %d", s.Len(), left)
		}
		if err := s.check(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(names(result), names(AssignInOrder(requests, stockOf(requests, p.volumes), limit))); diff != "" {
			t.Errorf("different results for equal arguments:\n%s", diff)
		}
	})
}

// TestAssignInOrderManyMixed: more requests than are assigned exactly; each is served, although
// the early ones may have all volumes and the late ones only some.
func TestAssignInOrderManyMixed(t *testing.T) {
	t.Parallel()
	const n = 3 * MaxExact
	var requests []Ordered
	var volumes []*Volume
	for i := range 2 * n {
		claim, tier := builders.MakePVC(fmt.Sprintf("claim-%03d", i)).Request("1"), "a"
		if i >= n {
			claim.MatchLabel("tier", "a")
			tier = "b"
		}
		r, err := NewRequest(claim.Obj())
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, Ordered{Request: r})
		volumes = append(volumes, NewVolume(builders.MakePV(fmt.Sprintf("pv-%03d", i)).Capacity("1").Label("tier", tier).Obj()))
	}
	for i, v := range AssignInOrder(requests, stockOf(requests, volumes), math.MaxInt) {
		if v == nil {
			t.Errorf("request %d is not served", i)
		}
	}
}

// TestAssignInOrderUnserved: a request gets the only volume that serves it from one that may have
// others, after however many that nothing serves.
func TestAssignInOrderUnserved(t *testing.T) {
	t.Parallel()
	const served, unserved = 100, 20_000
	var requests []Ordered
	var volumes []*Volume
	add := func(claim *builders.PVC) {
		r, err := NewRequest(claim.Obj())
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, Ordered{Request: r})
	}
	for i := range served {
		add(builders.MakePVC(fmt.Sprintf("served-%03d", i)).Request("1"))
		volumes = append(volumes, NewVolume(builders.MakePV(fmt.Sprintf("pv-%03d", i)).Capacity("1").Label("tier", strconv.Itoa(i)).Obj()))
	}
	for i := range unserved {
		add(builders.MakePVC(fmt.Sprintf("unserved-%05d", i)).Request("5"))
	}
	add(builders.MakePVC("last").Request("1").MatchLabel("tier", "0"))
	volumes = append(volumes, NewVolume(builders.MakePV("spare").Capacity("2").Obj()))
	if got := AssignInOrder(requests, stockOf(requests, volumes), math.MaxInt)[served+unserved]; got == nil || got.Name != "pv-000" {
		t.Errorf("the last request gets %v, want pv-000", got)
	}
}

// TestEach: Each yields what Cheapest returns.
func TestEach(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	pool := &Pool{}
	pool.IndexLabel("tier")
	for i := range 600 {
		v := randomPoolVolume(rng, 1)
		v.Name = fmt.Sprintf("pv-%d", i)
		pool.Insert(v)
	}
	for range 300 {
		r, k := randomPoolRequest(t, rng), 1+rng.IntN(700)
		var got []*Volume
		for v := range pool.Each(r) {
			if got = append(got, v); len(got) == k {
				break
			}
		}
		if diff := cmp.Diff(names(pool.Cheapest(r, k, nil)), names(got)); diff != "" {
			t.Fatalf("volumes (-want +got):\n%s", diff)
		}
	}
}

// poolStock of a benchmark with requests that are all alike.
type benchStock struct{ poolStock }

func (s benchStock) Cheapest(i, k int, dst []*Volume) []*Volume {
	return s.Pool.Cheapest(s.requests[i].Request, k, dst)
}

// BenchmarkAssignInOrder assigns 1,000 of 50,000 volumes. Target on two cores: at most 5 ms for
// requests that differ only in size, and 50 ms for others.
func BenchmarkAssignInOrder(b *testing.B) {
	volumes := benchVolumes(50_000)
	for name, change := range map[string]func(*builders.PVC){
		"alike": nil,
		"mixed": func(claim *builders.PVC) { claim.MatchLabel("tier", "gold") },
	} {
		var requests []Ordered
		for _, r := range benchRequests(b, change)[:1000] {
			requests = append(requests, Ordered{Request: r})
		}
		s := benchStock{stockOf(requests, volumes)}
		s.IndexLabel("tier")
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				result := AssignInOrder(requests, s, math.MaxInt)
				b.StopTimer()
				for _, v := range result {
					s.Return(v)
				}
				b.StartTimer()
			}
		})
	}
}
