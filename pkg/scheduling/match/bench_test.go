// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"stowage.dev/stowage/pkg/testing/builders"
)

// Targets on two cores of a current server, at every size: First at most 0.7 µs and
// without allocations, with an indexed selector likewise; Insert and Remove at most 2 µs
// each; four requests in conflict at most 5 µs without allocations.

var poolSizes = []int{1_000, 10_000, 100_000, 1_000_000}

// benchVolumes makes n volumes of 1 to 1000 GiB, a tenth of them of the most common size,
// with two combinations of access modes and three tiers.
func benchVolumes(n int) []*Volume {
	rng := rand.New(rand.NewPCG(1, 2))
	modes := [][]v1.PersistentVolumeAccessMode{{v1.ReadWriteOnce}, {v1.ReadWriteOnce, v1.ReadWriteMany}}
	labels := []map[string]string{{"tier": "gold"}, {"tier": "iron"}, {"tier": "tin"}}
	volumes := make([]*Volume, n)
	for i := range volumes {
		gib := int64(1 + rng.IntN(1000))
		if rng.IntN(10) == 0 {
			gib = 100
		}
		pv := &v1.PersistentVolume{}
		pv.Name = fmt.Sprintf("local-pv-%08x", rng.Uint32())
		pv.Labels = labels[rng.IntN(len(labels))]
		pv.Spec.StorageClassName = "local"
		pv.Spec.AccessModes = modes[rng.IntN(len(modes))]
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(gib<<30, resource.BinarySI)}
		pv.Status.Phase = v1.VolumeAvailable
		volumes[i] = NewVolume(pv)
	}
	return volumes
}

// benchPools builds each pool once for all benchmarks that only read it.
func benchPools(b *testing.B, run func(b *testing.B, pool *Pool, volumes []*Volume)) {
	for _, n := range poolSizes {
		volumes := benchVolumes(n)
		pool := &Pool{}
		pool.IndexLabel("tier")
		for _, v := range volumes {
			pool.Insert(v)
		}
		b.Run(fmt.Sprintf("volumes=%d", n), func(b *testing.B) { run(b, pool, volumes) })
	}
}

// benchRequests returns many requests, so that seeks take different paths.
func benchRequests(b *testing.B, change func(*builders.PVC)) []*Request {
	rng := rand.New(rand.NewPCG(3, 4))
	requests := make([]*Request, 1024)
	for i := range requests {
		claim := builders.MakePVC("data").Class("local").Request(fmt.Sprintf("%dGi", 1+rng.IntN(990)))
		if change != nil {
			change(claim)
		}
		r, err := NewRequest(claim.Obj())
		if err != nil {
			b.Fatal(err)
		}
		requests[i] = r
	}
	return requests
}

func benchFirst(b *testing.B, change func(*builders.PVC)) {
	requests := benchRequests(b, change)
	benchPools(b, func(b *testing.B, pool *Pool, _ []*Volume) {
		b.ReportAllocs()
		var one [1]*Volume
		for i := 0; b.Loop(); i++ {
			if len(pool.Cheapest(requests[i%len(requests)], 1, one[:0])) == 0 {
				b.Fatal("no volume found")
			}
		}
	})
}

func BenchmarkPoolFirst(b *testing.B) { benchFirst(b, nil) }

func BenchmarkPoolFirstSelector(b *testing.B) {
	benchFirst(b, func(claim *builders.PVC) { claim.MatchLabel("tier", "gold") })
}

func BenchmarkPoolCheapest4(b *testing.B) {
	requests := benchRequests(b, nil)
	benchPools(b, func(b *testing.B, pool *Pool, _ []*Volume) {
		dst := make([]*Volume, 0, 4)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if len(pool.Cheapest(requests[i%len(requests)], 4, dst)) != 4 {
				b.Fatal("too few volumes found")
			}
		}
	})
}

// BenchmarkPoolReplace removes a volume and inserts it again: two changes. If all volumes
// have one size, only names distinguish them.
func BenchmarkPoolReplace(b *testing.B) {
	for _, n := range poolSizes {
		for _, oneSize := range []bool{false, true} {
			volumes := benchVolumes(n)
			pool := &Pool{}
			for _, v := range volumes {
				if oneSize {
					v.Bytes = 100 << 30
				}
				pool.Insert(v)
			}
			b.Run(fmt.Sprintf("volumes=%d/oneSize=%t", n, oneSize), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					v := volumes[i%len(volumes)]
					if !pool.Remove(v) {
						b.Fatal("volume not found")
					}
					pool.Insert(v)
				}
			})
		}
	}
}

// benchConflict is four requests whose first choices collide.
func benchConflict(b *testing.B, n int) ([]*Request, [][]*Volume) {
	var p problem
	for i := range n {
		claim := builders.MakePVC(fmt.Sprintf("data-%d", i)).Request("1Gi")
		if i == n-1 {
			claim.MatchLabel("tier", "gold")
		}
		r, err := NewRequest(claim.Obj())
		if err != nil {
			b.Fatal(err)
		}
		p.requests = append(p.requests, r)
	}
	for i := range 2 * n {
		pv := builders.MakePV(fmt.Sprintf("local-pv-%08x", i*2654435761)).Capacity(fmt.Sprintf("%dGi", 1+i))
		if i == 0 {
			pv.Label("tier", "gold")
		}
		p.volumes = append(p.volumes, NewVolume(pv.Obj()))
	}
	candidates := p.candidates()
	for i := range candidates {
		candidates[i] = slices.Clip(candidates[i][:min(len(candidates[i]), Width(n))])
	}
	return p.requests, candidates
}

func BenchmarkAssign(b *testing.B) {
	for _, n := range []int{1, 4, 8, 16, 32, 33} {
		requests, candidates := benchConflict(b, n)
		solver := &Solver{}
		b.Run(fmt.Sprintf("Assign/claims=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				solver.Assign(requests, candidates)
			}
		})
		b.Run(fmt.Sprintf("Serve/claims=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				solver.Serve(requests, candidates)
			}
		})
	}
}

// BenchmarkAssignEqual is 32 equal claims on 32 volumes of different sizes, whose names
// sort like their sizes or in reverse.
func BenchmarkAssignEqual(b *testing.B) {
	for order, number := range map[string]func(i int) int{
		"rising":  func(i int) int { return i },
		"falling": func(i int) int { return MaxExact - i },
	} {
		b.Run(order, func(b *testing.B) {
			var p problem
			for i := range MaxExact {
				r, err := NewRequest(builders.MakePVC(fmt.Sprintf("data-%d", i)).Request("1Gi").Obj())
				if err != nil {
					b.Fatal(err)
				}
				p.requests = append(p.requests, r)
				p.volumes = append(p.volumes, NewVolume(builders.MakePV(fmt.Sprintf("pv-%02d", number(i))).Capacity(fmt.Sprintf("%dGi", 1+i)).Obj()))
			}
			candidates, solver := p.candidates(), &Solver{}
			b.ReportAllocs()
			for b.Loop() {
				solver.Assign(p.requests, candidates)
			}
		})
	}
}
