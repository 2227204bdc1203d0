// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

// Uniform is a copy of the content of a Pool whose volumes differ in capacity and labels
// alone, as the disks of a node usually do. It is small enough to be stored with the
// node, and valid until the Pool changes. The zero value is empty.
type Uniform struct {
	all group
	// sizes are the volumes' bytes, in order, if there are at most few; the list itself
	// is not read then.
	sizes [few]int64
}

// few is the usual number of volumes left on a node: a cache line of sizes.
const few = 8

// Uniform returns the pool's volumes if they are of one kind.
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

// Given returns the bytes of the volume that Pool.First returns, for a request without a
// selector. ok is false if there is none.
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

// fromEnd returns the bytes of the volume that n larger ones follow; there must be more
// than n.
func (u *Uniform) fromEnd(n int) int64 {
	if size := u.all.list.size; size <= few {
		return u.sizes[size-1-n]
	}
	return u.all.list.fromEnd(n)
}

// ServesAll returns the index of a request that goes unserved when the volumes serve as
// many as possible, one volume each; -1 if all are served. The requests have no
// selectors. Its time is quadratic in their number: call it for at most MaxExact.
func (u *Uniform) ServesAll(requests []*Request) (unserved int) {
	for i, r := range requests {
		if !u.all.kind.serves(r) {
			return i
		}
	}
	// Volumes of one kind differ in size alone. All requests are served if and only if
	// the largest volume serves the largest request, the second largest the second
	// largest, and so on. The largest unserved request is returned.
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

// Same reports whether both are copies of the same state of the same Pool.
func (u *Uniform) Same(other *Uniform) bool {
	a, b := &u.all.list, &other.all.list
	return u.all.kind == other.all.kind && a.size == b.size && a.largest == b.largest &&
		u.sizes == other.sizes && len(a.first) == len(b.first) && (len(a.first) == 0 || &a.first[0] == &b.first[0])
}
