// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package match

// cursor points to a volume of one group and moves towards larger ones.
type cursor struct {
	list    *ordered
	rest    []entry // of the current chunk; never empty
	chunk   int
	surplus int // access modes of the group that the request did not request
}

// advance moves to the next volume and reports whether there is one.
func (c *cursor) advance() bool {
	if len(c.rest) > 1 {
		c.rest = c.rest[1:]
		return true
	}
	c.chunk++
	if c.chunk == len(c.list.chunks) {
		return false
	}
	c.rest = c.list.chunks[c.chunk]
	return true
}

// before compares the volumes at two cursors in the order of Less.
func (c *cursor) before(d *cursor) bool {
	return compareOffers(c.rest[0], c.surplus, d.rest[0], d.surplus) < 0
}

// merge iterates over several groups in the order of Less. It is a heap of cursors; those
// of a usual request fit into an array on the caller's stack.
type merge []cursor

// onStack is the number of cursors that callers allocate on the stack: more than the
// combinations of access modes that a class usually has.
const onStack = 8

// add appends a cursor for each group of the set that could serve the request. Call start
// before the first next.
func (m merge) add(s *grouped, r *Request) merge {
	compatible := s.compatible(r)
	for i := range compatible {
		g := &compatible[i]
		if !g.kind.modes.Contains(r.AccessModes) {
			continue
		}
		rest, chunk := g.list.seek(r.Bytes)
		if len(rest) == 0 {
			continue
		}
		m = append(m, cursor{
			list:    &g.list,
			rest:    rest,
			chunk:   chunk,
			surplus: g.kind.modes.Surplus(r.AccessModes),
		})
	}
	return m
}

// start establishes the heap order.
func (m merge) start() {
	for i := len(m)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
}

// next returns the first volume and the remaining merge. The merge must not be empty.
func (m merge) next() (*Volume, merge) {
	v := m[0].rest[0].volume
	if !m[0].advance() {
		last := len(m) - 1
		m[0] = m[last]
		m = m[:last]
	}
	m.down(0)
	return v, m
}

// down restores the heap order below a cursor.
func (m merge) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m); child++ {
			if m[child].before(&m[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		m[i], m[least] = m[least], m[i]
		i = least
	}
}
