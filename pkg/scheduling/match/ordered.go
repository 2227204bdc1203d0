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

// Sizes of an ordered list's chunks. A full chunk is a few kilobytes, which
// moves quickly; a million volumes make some ten thousand chunks, whose ends
// are searched without touching the chunks.
const (
	fullChunk = 128 // split before it grows beyond
	lowChunk  = 32  // joined with a neighbour when it falls below
)

// entry is a volume with its sort key beside it, so that a search reads the
// chunk and not volumes all over the memory.
type entry struct {
	bytes  int64
	name   string
	volume *Volume
}

// ordered is a list of volumes sorted by (bytes, name), with logarithmic
// seeking and cheap changes: a list of sorted chunks. The zero value is empty
// and ready to use.
type ordered struct {
	size int
	// largest is the bytes of the last volume, here so that whether any is
	// large enough can be told without following a pointer; 0 when empty.
	largest int64
	// first is chunks[0], here to be reached one pointer sooner: the volumes of
	// one node rarely fill more.
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

// short is how many entries are quicker looked at in turn: the processor fetches
// them at the same time, where a binary search waits for each.
const short = 16

// firstOfSize returns the index of the first entry of at least that size.
func firstOfSize(entries []entry, bytes int64) int {
	if len(entries) <= short {
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

// seek returns the volumes of at least that size in the first chunk that has
// any, and which chunk that is; none at the end of the list.
func (o *ordered) seek(bytes int64) (rest []entry, chunk int) {
	if bytes > o.largest || o.size == 0 {
		return nil, len(o.chunks)
	}
	rest = o.first
	if len(o.chunks) > 1 { // else the ends need not be fetched
		chunk = firstOfSize(o.ends, bytes)
		rest = o.chunks[chunk]
	}
	return rest[firstOfSize(rest, bytes):], chunk
}

// fromEnd returns the bytes of the volume that has n larger ones behind it; the
// list must have more than n.
func (o *ordered) fromEnd(n int) int64 {
	if len(o.chunks) == 1 {
		return o.first[len(o.first)-1-n].bytes
	}
	chunk := len(o.chunks) - 1
	for ; n >= len(o.chunks[chunk]); chunk-- {
		n -= len(o.chunks[chunk])
	}
	return o.chunks[chunk][len(o.chunks[chunk])-1-n].bytes
}

// insert adds the volume, or puts it in the place of the one with the same
// size and name, which it returns.
func (o *ordered) insert(v *Volume) (replaced *Volume) {
	e := entryOf(v)
	chunk, _ := slices.BinarySearchFunc(o.ends, e, compareEntries)
	if chunk == len(o.chunks) {
		if chunk == 0 {
			o.chunks, o.ends, o.size = append(o.chunks, []entry{e}), append(o.ends, e), 1
			o.fixCopies()
			return nil
		}
		chunk--
	}
	index, found := slices.BinarySearchFunc(o.chunks[chunk], e, compareEntries)
	if found {
		replaced = o.chunks[chunk][index].volume
		o.chunks[chunk][index] = e
		o.fixEnd(chunk)
		return replaced
	}
	o.chunks[chunk] = slices.Insert(o.chunks[chunk], index, e)
	o.size++
	if len(o.chunks[chunk]) > fullChunk {
		o.split(chunk)
	}
	o.fixEnd(chunk)
	return nil
}

// remove takes out the volume of that size and name and returns it, or nil.
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

// find returns where the entry is in the chunk. Usually it is the very volume
// that was inserted, and found without looking at any other volume's name.
func find(chunk []entry, e entry) (int, bool) {
	for i := range chunk {
		if chunk[i].volume == e.volume {
			return i, true
		}
	}
	return slices.BinarySearchFunc(chunk, e, compareEntries)
}

// split moves the upper half of a chunk into a new one behind it.
func (o *ordered) split(chunk int) {
	whole := o.chunks[chunk]
	half := len(whole) / 2
	upper := append(make([]entry, 0, fullChunk+1), whole[half:]...)
	clear(whole[half:])
	o.chunks[chunk] = whole[:half]
	o.chunks = slices.Insert(o.chunks, chunk+1, upper)
	o.ends = slices.Insert(o.ends, chunk+1, upper[len(upper)-1])
	o.fixCopies()
}

// shrink drops a chunk that has become empty and joins one that has become
// small with its smaller neighbour, when the two leave room to grow.
func (o *ordered) shrink(chunk int) {
	if len(o.chunks[chunk]) == 0 {
		o.drop(chunk)
		return
	}
	o.fixEnd(chunk)
	if len(o.chunks[chunk]) >= lowChunk || len(o.chunks) == 1 {
		return
	}
	left := chunk // of the pair that is joined
	if chunk == len(o.chunks)-1 || (chunk > 0 && len(o.chunks[chunk-1]) < len(o.chunks[chunk+1])) {
		left = chunk - 1
	}
	if len(o.chunks[left])+len(o.chunks[left+1]) > fullChunk/2 {
		return
	}
	o.chunks[left] = append(o.chunks[left], o.chunks[left+1]...)
	o.drop(left + 1)
	o.fixEnd(left)
}

func (o *ordered) drop(chunk int) {
	o.chunks = slices.Delete(o.chunks, chunk, chunk+1)
	o.ends = slices.Delete(o.ends, chunk, chunk+1)
	o.fixCopies()
}

func (o *ordered) fixEnd(chunk int) {
	o.ends[chunk] = o.chunks[chunk][len(o.chunks[chunk])-1]
	o.fixCopies()
}

// fixCopies makes largest and first right after a chunk or an end has changed.
func (o *ordered) fixCopies() {
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
				return fmt.Errorf("volume %s is filed under %d bytes, but has %d", e.volume.Name, e.bytes, e.volume.Bytes)
			}
			if size > 0 && compareEntries(previous, e) >= 0 {
				return fmt.Errorf("volume %s is filed before volume %s", previous.volume.Name, e.volume.Name)
			}
			previous = e
			size++
		}
	}
	if len(o.first) != 0 && (&o.first[0] != &o.chunks[0][0] || len(o.first) != len(o.chunks[0])) || len(o.first) == 0 && size > 0 {
		return errors.New("the first chunk is not the list's first")
	}
	if o.largest != previous.bytes {
		return fmt.Errorf("largest is %d bytes, but the last volume has %d", o.largest, previous.bytes)
	}
	if size != o.size {
		return fmt.Errorf("size is %d, but there are %d volumes", o.size, size)
	}
	return nil
}
