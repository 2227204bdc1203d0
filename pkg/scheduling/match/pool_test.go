// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
)

// randomPoolVolume makes a volume whose name is one of few, so that names recur with
// other sizes and labels.
func randomPoolVolume(rng *rand.Rand, different int) *Volume {
	pv := builders.MakePV(fmt.Sprintf("pv-%d", rng.IntN(different))).Class("local").
		Capacity(strconv.Itoa(1 + rng.IntN(6))).
		AccessModes(someModes[rng.IntN(len(someModes))]...)
	if rng.IntN(8) == 0 {
		pv.Block()
	}
	if rng.IntN(8) == 0 {
		pv.AttributesClass("fast")
	}
	for _, key := range []string{"tier", "rack"} {
		if rng.IntN(3) > 0 {
			pv.Label(key, []string{"a", "b", "c"}[rng.IntN(3)])
		}
	}
	return NewVolume(pv.Obj())
}

// randomPoolRequest requests what some of those volumes offer.
func randomPoolRequest(t testing.TB, rng *rand.Rand) *Request {
	pvc := builders.MakePVC("data").Class("local").Request(strconv.Itoa(rng.IntN(7))).
		AccessModes(someModes[rng.IntN(3)]...)
	if rng.IntN(8) == 0 {
		pvc.Block()
	}
	if rng.IntN(8) == 0 {
		pvc.AttributesClass("fast")
	}
	for _, key := range []string{"tier", "rack"} {
		switch rng.IntN(8) {
		case 0:
			pvc.MatchLabel(key, []string{"a", "b", "nowhere"}[rng.IntN(3)])
		case 1:
			pvc.MatchExpression(key, metav1.LabelSelectorOpIn, "b", "a", "b")
		case 2:
			pvc.MatchExpression(key, metav1.LabelSelectorOpNotIn, "a", "nowhere")
		case 3:
			pvc.MatchExpression(key, metav1.LabelSelectorOpExists)
		case 4:
			pvc.MatchExpression(key, metav1.LabelSelectorOpDoesNotExist)
		}
	}
	r, err := NewRequest(pvc.Obj())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// naive computes Cheapest by sorting all volumes.
func naive(volumes map[string]*Volume, r *Request, k int) []*Volume {
	var found []*Volume
	for _, v := range volumes {
		if r.Matches(v) {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b *Volume) int {
		switch {
		case Less(r, a, b):
			return -1
		case Less(r, b, a):
			return 1
		}
		return 0
	})
	return found[:min(k, len(found))]
}

// FuzzPool changes a pool at random and compares its results with a scan of all volumes.
func FuzzPool(f *testing.F) {
	for seed := range uint64(24) {
		f.Add(seed, uint16(100+seed*40), uint16(1+seed*seed*3))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps, different uint16) {
		rng := rand.New(rand.NewPCG(seed, 0))
		pool := &Pool{}
		model := map[string]*Volume{}
		for range int(steps) % 2048 {
			switch v := randomPoolVolume(rng, 1+int(different)%1024); rng.IntN(40) {
			case 0:
				pool.IndexLabel([]string{"tier", "rack", "nowhere"}[rng.IntN(3)])
			case 1, 2, 3, 4, 5, 6, 7, 8:
				old := model[v.Name]
				delete(model, v.Name)
				if old != nil && !pool.Remove(old) {
					t.Fatalf("volume %s was not found", old.Name)
				}
				if pool.Remove(v) {
					t.Fatalf("volume %s was found after it was removed", v.Name)
				}
			default:
				if old := model[v.Name]; old != nil && (old.Bytes != v.Bytes || kindOf(old) != kindOf(v)) {
					pool.Remove(old)
				}
				pool.Insert(v)
				model[v.Name] = v
			}
		}
		if err := pool.check(); err != nil {
			t.Fatal(err)
		}
		if pool.Len() != len(model) {
			t.Errorf("Len: got %d, want %d", pool.Len(), len(model))
		}
		for range 20 {
			comparePool(t, pool, model, randomPoolRequest(t, rng), rng.IntN(6))
		}
	})
}

func comparePool(t *testing.T, pool *Pool, model map[string]*Volume, r *Request, k int) {
	t.Helper()
	want := naive(model, r, k)
	head := NewVolume(builders.MakePV("head").Obj())
	got := pool.Cheapest(r, k, []*Volume{head})
	if got[0] != head {
		t.Errorf("Cheapest overwrote the slice that it appends to")
	}
	if diff := cmp.Diff(names(want), names(got[1:])); diff != "" {
		t.Errorf("Cheapest(%d) for %+v:\n%s", k, r.Claim.Spec, diff)
	}
	if got, want := pool.Serves(r), len(naive(model, r, 1)) > 0; got != want {
		t.Errorf("Serves for %+v: got %t, want %t", r.Claim.Spec, got, want)
	}
}

func TestPoolGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for name, order := range map[string]func([]*Volume){
		"smallest first": func([]*Volume) {},
		"biggest first":  slices.Reverse[[]*Volume],
		"at random": func(volumes []*Volume) {
			rand.New(rand.NewPCG(1, 1)).Shuffle(n, func(i, j int) { volumes[i], volumes[j] = volumes[j], volumes[i] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			volumes := make([]*Volume, n)
			for i := range volumes {
				pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pv-%06d", i)}}
				volumes[i] = NewVolume(pv)
				volumes[i].Bytes = int64(i / 3)
			}
			order(volumes)
			pool := &Pool{}
			for _, v := range volumes {
				pool.Insert(v)
			}
			if err := pool.check(); err != nil {
				t.Fatal(err)
			}
			if chunks := len(pool.all.groups[0].list.chunks); chunks > 4*n/fullChunk {
				t.Errorf("%d volumes are spread over %d chunks", n, chunks)
			}
			for i, v := range volumes {
				if i%100 != 0 && !pool.Remove(v) {
					t.Fatalf("volume %s was not found", v.Name)
				}
			}
			if err := pool.check(); err != nil {
				t.Fatal(err)
			}
			if chunks := len(pool.all.groups[0].list.chunks); chunks > n/100/(lowChunk/2) {
				t.Errorf("%d volumes are spread over %d chunks", n/100, chunks)
			}
			for i := 0; i < n; i += 100 {
				pool.Remove(volumes[i])
			}
			if pool.Len() != 0 || len(pool.all.groups) != 0 {
				t.Errorf("an empty pool has %d volumes in %d groups", pool.Len(), len(pool.all.groups))
			}
		})
	}
}

func TestPoolReplacesAVolumeOfTheSameKey(t *testing.T) {
	t.Parallel()
	pool := &Pool{}
	pool.IndexLabel("tier")
	pool.Insert(NewVolume(builders.MakePV("pv").Label("tier", "gold").Obj()))
	pool.Insert(NewVolume(builders.MakePV("pv").Label("tier", "iron").Obj()))
	if err := pool.check(); err != nil {
		t.Error(err)
	}
	if pool.Len() != 1 {
		t.Errorf("Len: got %d, want 1", pool.Len())
	}
	if !pool.Remove(NewVolume(builders.MakePV("pv").Label("tier", "tin").Obj())) {
		t.Error("a volume compiled again from a newer object was not found")
	}
	if err := pool.check(); err != nil {
		t.Error(err)
	}
}

func TestPoolReadsConcurrently(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 5))
	pool := &Pool{}
	pool.IndexLabel("tier")
	model := map[string]*Volume{}
	for i := range 500 {
		v := randomPoolVolume(rng, 1<<30)
		v.Name = fmt.Sprintf("pv-%d", i)
		pool.Insert(v)
		model[v.Name] = v
	}
	requests := make([]*Request, 16)
	for i := range requests {
		requests[i] = randomPoolRequest(t, rng)
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for _, r := range requests {
				comparePool(t, pool, model, r, 3)
			}
		})
	}
	readers.Wait()
}

// TestServesAll: the results equal those of an assignment.
func TestServesAll(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	cases, all := 0, 0
	for range 20_000 {
		pool := &Pool{}
		for i, n := 0, rng.IntN(16); i < n; i++ {
			pv := builders.MakePV(fmt.Sprintf("pv-%d", i)).Class("local").Capacity(strconv.Itoa(1 + rng.IntN(5)))
			if rng.IntN(16) == 0 {
				pv.Block()
			}
			pool.Insert(NewVolume(pv.Obj()))
		}
		var requests []*Request
		for range 1 + rng.IntN(4) {
			pvc := builders.MakePVC("data").Class("local").Request(strconv.Itoa(rng.IntN(7)))
			if rng.IntN(16) == 0 {
				pvc.Block()
			}
			r, err := NewRequest(pvc.Obj())
			if err != nil {
				t.Fatal(err)
			}
			requests = append(requests, r)
		}
		unserved, known := pool.ServesAll(requests)
		if !known {
			continue
		}
		cases++
		if unserved < 0 {
			all++
		}
		most := mostServed(pool, requests)
		if (unserved < 0) != (most == len(requests)) {
			t.Fatalf("ServesAll returns %d, but %d of %d requests can be served", unserved, most, len(requests))
		}
		if unserved >= 0 && mostServed(pool, slices.Delete(slices.Clone(requests), unserved, unserved+1)) != most {
			t.Fatalf("without request %d, fewer than %d are served", unserved, most)
		}
	}
	if cases < 10_000 || all < 1000 {
		t.Errorf("%d cases, %d of them with all served: too few", cases, all)
	}
}

// mostServed is how many requests the pool's volumes can serve.
func mostServed(pool *Pool, requests []*Request) int {
	candidates := make([][]*Volume, len(requests))
	for i, r := range requests {
		candidates[i] = pool.Cheapest(r, Width(len(requests)), nil)
	}
	served := 0
	for _, v := range (&Solver{}).Assign(requests, candidates) {
		if v != nil {
			served++
		}
	}
	return served
}
