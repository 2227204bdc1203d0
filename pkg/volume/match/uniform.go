// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

// Uniform is what a Pool holds when its volumes differ in capacity and labels
// alone, as the disks of a node mostly do: small enough to be kept where it is
// asked for. It is good until the Pool changes; then take another. The zero value
// is no volumes.
type Uniform struct{ all group }

// Uniform returns the pool's volumes, when they are alike.
func (p *Pool) Uniform() (u Uniform, ok bool) {
	if len(p.all.groups) != 1 {
		return Uniform{}, false
	}
	return Uniform{p.all.groups[0]}, true
}

// Serves is Pool.Serves for a request without a selector.
func (u *Uniform) Serves(r *Request) bool {
	return r.Bytes <= u.all.list.largest && u.all.list.size > 0 && u.all.kind.serves(r)
}

// First is Pool.First for a request without a selector.
func (u *Uniform) First(r *Request) (v *Volume, bytes int64) {
	if rest, _ := u.all.list.seek(r.Bytes); len(rest) > 0 && u.all.kind.serves(r) {
		return rest[0].volume, rest[0].bytes
	}
	return nil, 0
}

// ServesAll finds a request that goes unserved when the volumes serve as many as
// they can, one volume each: its index, -1 when all are served. The requests have
// no selectors.
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
		if larger < rank && (larger >= u.all.list.size || u.all.list.fromEnd(larger) < r.Bytes) {
			unserved, rank = i, larger
		}
	}
	return unserved
}

// Same tells whether two of them show the same state of the same Pool.
func (u *Uniform) Same(other *Uniform) bool {
	a, b := &u.all.list, &other.all.list
	return u.all.kind == other.all.kind && a.size == b.size && a.largest == b.largest &&
		len(a.first) == len(b.first) && (len(a.first) == 0 || &a.first[0] == &b.first[0])
}
