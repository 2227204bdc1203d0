// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"flag"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// turns lets parallel tests run, at most max at a time: those of a site that has begun before others.
// A cluster at rest takes a fifth of a processor, and a node a tenth, so as few as possible are to run
// at once. Go would start tests in any order.
type turns struct {
	mu      sync.Mutex
	max     int
	running int
	waiting []*turn // in the order of their arrival
	begun   map[*Site]bool
}

// turn is that of one test.
type turn struct {
	site  *Site // nil: a cluster of its own
	first bool
	come  chan struct{} // closed when it has come
}

// newTurns takes the place of Go's limit of parallel tests, which is the number at a time.
func newTurns() (*turns, error) {
	limit := flag.Lookup("test.parallel").Value
	n, err := strconv.Atoi(limit.String())
	if err != nil {
		return nil, err
	}
	return &turns{max: n, begun: map[*Site]bool{}}, limit.Set("1000")
}

// take returns when it is the test's turn, which lasts until the test has ended.
func (q *turns) take(t testing.TB, site *Site, first bool) {
	own := &turn{site, first, make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, own)
	q.next()
	q.mu.Unlock()
	<-own.come
	t.Cleanup(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.running--
		q.next()
	})
}

// next gives as many tests their turn as may run.
func (q *turns) next() {
	for q.running < q.max && len(q.waiting) > 0 {
		i := slices.IndexFunc(q.waiting, func(o *turn) bool { return o.first })
		if i < 0 {
			i = max(0, slices.IndexFunc(q.waiting, func(o *turn) bool { return q.begun[o.site] }))
		}
		own := q.waiting[i]
		q.waiting = slices.Delete(q.waiting, i, i+1)
		if own.site != nil {
			q.begun[own.site] = true
		}
		q.running++
		close(own.come)
	}
}
