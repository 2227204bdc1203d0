// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

// Uniform is what a Pool holds when its volumes differ in capacity and labels
// alone, as the disks of a node mostly do: small enough to be kept where it is
// asked for. It is good until the Pool changes; then take another. The zero value
// is no volumes.
type Uniform struct {
	all group
	// sizes are the volumes' bytes, in order, when there are no more than fit:
	// then the list itself need not be read.
	sizes [few]int64
}

// few volumes are what is mostly left on a node: a cache line of sizes.
const few = 8

// Uniform returns the pool's volumes, when they are alike.
func (p *Pool) Uniform() (u Uniform, ok bool) {
	if len(p.all.groups) != 1 {
		return Uniform{}, false
	}
	u.all = p.all.groups[0]
	if u.all.list.size > few {
		return u, true
	}
	sizes := u.sizes[:0]
	for _, chunk := range u.all.list.chunks {
		for _, e := range chunk {
			sizes = append(sizes, e.bytes)
		}
	}
	return u, true
}

// Serves is Pool.Serves for a request without a selector.
func (u *Uniform) Serves(r *Request) bool {
	return r.Bytes <= u.all.list.largest && u.all.list.size > 0 && u.all.kind.serves(r)
}

// Given returns how many bytes the request is given: those of the volume that is
// Pool.First's, for a request without a selector. ok is false when there is none.
func (u *Uniform) Given(r *Request) (bytes int64, ok bool) {
	if !u.Serves(r) {
		return 0, false
	}
	if size := u.all.list.size; size <= few {
		for _, bytes := range u.sizes[:size] {
			if bytes >= r.Bytes {
				return bytes, true
			}
		}
	}
	rest, _ := u.all.list.seek(r.Bytes)
	return rest[0].bytes, true
}

// fromEnd returns the bytes of the volume that has n larger ones behind it; there
// must be more than n.
func (u *Uniform) fromEnd(n int) int64 {
	if size := u.all.list.size; size <= few {
		return u.sizes[size-1-n]
	}
	return u.all.list.fromEnd(n)
}

// ServesAll finds a request that goes unserved when the volumes serve as many as
// they can, one volume each: its index, -1 when all are served. The requests have
// no selectors. It takes time quadratic in their number: ask for no more than
// MaxExact.
func (u *Uniform) ServesAll(requests []*Request) (unserved int) {
	for i, r := range requests {
		if !u.all.kind.serves(r) {
			return i
		}
	}
	// Volumes of one kind differ in size alone. All requests are served just
	// when the largest volume serves the largest request, the second largest
	// the second largest, and so on. The largest that is not served is told.
	unserved = -1
	rank := len(requests)
	for i, r := range requests {
		larger := 0
		for j, other := range requests {
			if other.Bytes > r.Bytes || (other.Bytes == r.Bytes && j < i) {
				larger++
			}
		}
		if larger < rank && (larger >= u.all.list.size || u.fromEnd(larger) < r.Bytes) {
			unserved, rank = i, larger
		}
	}
	return unserved
}

// Same tells whether two of them show the same state of the same Pool.
func (u *Uniform) Same(other *Uniform) bool {
	a, b := &u.all.list, &other.all.list
	return u.all.kind == other.all.kind && a.size == b.size && a.largest == b.largest &&
		u.sizes == other.sizes && len(a.first) == len(b.first) && (len(a.first) == 0 || &a.first[0] == &b.first[0])
}
