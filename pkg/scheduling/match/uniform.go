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
