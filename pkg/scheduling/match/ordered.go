// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Sizes of an ordered list's chunks. A full chunk is a few kilobytes, which are moved
// quickly; a million volumes make some ten thousand chunks, whose ends are searched
// without reading the chunks.
const (
	fullChunk = 128 // split above this size
	lowChunk  = 32  // merged with a neighbour below this size
)

// entry is a volume with its sort key, so that a search reads consecutive memory.
type entry struct {
	bytes  int64
	name   string
	volume *Volume
}

// ordered is a list of volumes sorted by (bytes, name), stored as sorted chunks: seeks
// are logarithmic and changes cheap. The zero value is empty and ready to use.
type ordered struct {
	size int
	// largest is the bytes of the last volume, duplicated to avoid a dereference; 0 when
	// empty.
	largest int64
	// first is chunks[0], duplicated to avoid a dereference: the volumes of one node
	// rarely fill more.
	first  []entry
	chunks [][]entry // none is empty
	ends   []entry   // ends[i] is the last entry of chunks[i]
}

func entryOf(v *Volume) entry { return entry{v.Bytes, v.Name, v} }

func compareEntries(a, b entry) int {
	if c := cmp.Compare(a.bytes, b.bytes); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}

// maxLinearScan is how many entries are scanned faster than by a binary search, which
// waits for each memory access.
const maxLinearScan = 16

// firstOfSize returns the index of the first entry of at least that size.
func firstOfSize(entries []entry, bytes int64) int {
	if len(entries) <= maxLinearScan {
		for i := range entries {
			if entries[i].bytes >= bytes {
				return i
			}
		}
		return len(entries)
	}
	low, high := 0, len(entries)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if entries[middle].bytes < bytes {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// seek returns the volumes of at least that size in the first chunk that has any, and the
// chunk's index; none at the end of the list.
func (o *ordered) seek(bytes int64) (rest []entry, chunk int) {
	if bytes > o.largest || o.size == 0 {
		return nil, len(o.chunks)
	}
	rest = o.first
	if len(o.chunks) > 1 { // else ends need not be read
		chunk = firstOfSize(o.ends, bytes)
		rest = o.chunks[chunk]
	}
	return rest[firstOfSize(rest, bytes):], chunk
}

// cheapest appends the first k volumes that are large enough for the request and match
// its selector.
func (o *ordered) cheapest(r *Request, k int, dst []*Volume) []*Volume {
	rest, chunk := o.seek(r.Bytes)
	for len(rest) > 0 {
		for i := range rest {
			if k == 0 {
				return dst
			}
			if v := rest[i].volume; r.selects(v) {
				dst, k = append(dst, v), k-1
			}
		}
		if chunk++; chunk == len(o.chunks) {
			break
		}
		rest = o.chunks[chunk]
	}
	return dst
}

// cursor is a position in an ordered list. rest begins with the volume at the position and
// ends with its chunk; it is empty at the end of the list.
type cursor struct {
	list  *ordered
	rest  []entry
	chunk int
}

// settle moves the cursor to the next volume that the request's selector matches, if it is
// not at one.
func (c *cursor) settle(r *Request) {
	for {
		if len(c.rest) == 0 {
			if c.chunk++; c.chunk >= len(c.list.chunks) {
				return
			}
			c.rest = c.list.chunks[c.chunk]
		}
		if r.selects(c.rest[0].volume) {
			return
		}
		c.rest = c.rest[1:]
	}
}

// fromEnd returns the bytes of the volume that n larger ones follow; the list must have
// more than n.
func (o *ordered) fromEnd(n int) int64 {
	if n == 0 {
		return o.largest
	}
	chunk := len(o.chunks) - 1
	for ; n >= len(o.chunks[chunk]); chunk-- {
		n -= len(o.chunks[chunk])
	}
	return o.chunks[chunk][len(o.chunks[chunk])-1-n].bytes
}

// insert adds the volume, replacing and returning one with the same size and name.
func (o *ordered) insert(v *Volume) (replaced *Volume) {
	e := entryOf(v)
	chunk, _ := slices.BinarySearchFunc(o.ends, e, compareEntries)
	if chunk == len(o.chunks) {
		if chunk == 0 {
			o.chunks, o.ends, o.size = append(o.chunks, []entry{e}), append(o.ends, e), 1
			o.updateCopies()
			return nil
		}
		chunk--
	}
	index, found := slices.BinarySearchFunc(o.chunks[chunk], e, compareEntries)
	if found {
		replaced = o.chunks[chunk][index].volume
		o.chunks[chunk][index] = e
		o.updateEnd(chunk)
		return replaced
	}
	o.chunks[chunk] = slices.Insert(o.chunks[chunk], index, e)
	o.size++
	if len(o.chunks[chunk]) > fullChunk {
		o.split(chunk)
	}
	o.updateEnd(chunk)
	return nil
}

// remove removes and returns the volume of that size and name, nil if there is none.
func (o *ordered) remove(v *Volume) *Volume {
	e := entryOf(v)
	chunk, _ := slices.BinarySearchFunc(o.ends, e, compareEntries)
	if chunk == len(o.chunks) {
		return nil
	}
	index, found := find(o.chunks[chunk], e)
	if !found {
		return nil
	}
	removed := o.chunks[chunk][index].volume
	o.chunks[chunk] = slices.Delete(o.chunks[chunk], index, index+1)
	o.size--
	o.shrink(chunk)
	return removed
}

// find returns the index of the entry in the chunk. It is usually the inserted volume
// itself, which is found without comparing names.
func find(chunk []entry, e entry) (int, bool) {
	for i := range chunk {
		if chunk[i].volume == e.volume {
			return i, true
		}
	}
	return slices.BinarySearchFunc(chunk, e, compareEntries)
}

// split moves the upper half of a chunk into a new one after it.
func (o *ordered) split(chunk int) {
	whole := o.chunks[chunk]
	half := len(whole) / 2
	upper := append(make([]entry, 0, fullChunk+1), whole[half:]...)
	clear(whole[half:])
	o.chunks[chunk] = whole[:half]
	o.chunks = slices.Insert(o.chunks, chunk+1, upper)
	o.ends = slices.Insert(o.ends, chunk+1, upper[len(upper)-1])
	o.updateCopies()
}

// shrink removes an empty chunk, and merges a small one with its smaller neighbour if the
// result has space to grow.
func (o *ordered) shrink(chunk int) {
	if len(o.chunks[chunk]) == 0 {
		o.drop(chunk)
		return
	}
	o.updateEnd(chunk)
	if len(o.chunks[chunk]) >= lowChunk || len(o.chunks) == 1 {
		return
	}
	left := chunk // of the pair that is merged
	if chunk == len(o.chunks)-1 || (chunk > 0 && len(o.chunks[chunk-1]) < len(o.chunks[chunk+1])) {
		left = chunk - 1
	}
	if len(o.chunks[left])+len(o.chunks[left+1]) > fullChunk/2 {
		return
	}
	o.chunks[left] = append(o.chunks[left], o.chunks[left+1]...)
	o.drop(left + 1)
	o.updateEnd(left)
}

func (o *ordered) drop(chunk int) {
	o.chunks = slices.Delete(o.chunks, chunk, chunk+1)
	o.ends = slices.Delete(o.ends, chunk, chunk+1)
	o.updateCopies()
}

func (o *ordered) updateEnd(chunk int) {
	o.ends[chunk] = o.chunks[chunk][len(o.chunks[chunk])-1]
	o.updateCopies()
}

// updateCopies updates largest and first after a chunk or an end has changed.
func (o *ordered) updateCopies() {
	o.largest, o.first = 0, nil
	if last := len(o.ends) - 1; last >= 0 {
		o.largest, o.first = o.ends[last].bytes, o.chunks[0]
	}
}

// check returns the first violated invariant.
func (o *ordered) check() error {
	if len(o.chunks) != len(o.ends) {
		return fmt.Errorf("%d chunks have %d ends", len(o.chunks), len(o.ends))
	}
	size, previous := 0, entry{}
	for i, chunk := range o.chunks {
		if len(chunk) == 0 || len(chunk) > fullChunk {
			return fmt.Errorf("chunk %d has %d volumes", i, len(chunk))
		}
		if o.ends[i] != chunk[len(chunk)-1] {
			return fmt.Errorf("the end of chunk %d is not its last volume", i)
		}
		for _, e := range chunk {
			if e.bytes != e.volume.Bytes {
				return fmt.Errorf("volume %s is sorted by %d bytes, but has %d", e.volume.Name, e.bytes, e.volume.Bytes)
			}
			if size > 0 && compareEntries(previous, e) >= 0 {
				return fmt.Errorf("volume %s is sorted before volume %s", previous.volume.Name, e.volume.Name)
			}
			previous = e
			size++
		}
	}
	if len(o.first) != 0 && (&o.first[0] != &o.chunks[0][0] || len(o.first) != len(o.chunks[0])) || len(o.first) == 0 && size > 0 {
		return errors.New("first is not the first chunk")
	}
	if o.largest != previous.bytes {
		return fmt.Errorf("largest is %d bytes, but the last volume has %d", o.largest, previous.bytes)
	}
	if size != o.size {
		return fmt.Errorf("size is %d, but there are %d volumes", o.size, size)
	}
	return nil
}
