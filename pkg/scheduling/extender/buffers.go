// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"sync"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// buffers are pooled memory for bodies and answers: with thousands of nodes these are
// hundreds of kilobytes a call, and garbage collection, which scans tens of thousands of
// volumes, dominates the latency of calls. A call that rejects 5,000 nodes allocates 0.4 MB
// with the lists below and 1.1 MB without (BenchmarkFilter).
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledBuffer is the largest buffer to keep: whole Node objects may take megabytes,
// and few configurations send them.
const maxPooledBuffer = 4 << 20

func getBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

// putBuffer returns a buffer, which must not be used afterwards.
func putBuffer(b *bytes.Buffer) {
	if b.Cap() > maxPooledBuffer {
		return
	}
	b.Reset()
	buffers.Put(b)
}

// lists are pooled lists with an entry for each node of a call.
type lists[T any] struct{ pool sync.Pool }

// maxPooledEntries is the longest list to keep: longer than clusters have nodes.
const maxPooledEntries = 1 << 17

// get returns an empty list. Put it back after use.
func (l *lists[T]) get() *[]T {
	if list, ok := l.pool.Get().(*[]T); ok {
		return list
	}
	return new([]T)
}

// put returns a list to the pool; nil is ignored.
func (l *lists[T]) put(list *[]T) {
	if list == nil || cap(*list) > maxPooledEntries {
		return
	}
	clear(*list)
	*list = (*list)[:0]
	l.pool.Put(list)
}

var (
	nameLists      lists[string]
	indexLists     lists[int]
	rejectionLists lists[rejection]
	rankLists      lists[extenderv1.HostPriority]
)
