// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"sync"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// buffers are memory for bodies and answers: with thousands of nodes these are
// hundreds of kilobytes a call, and the garbage collector, which has tens of
// thousands of volumes to look at each time, is what makes calls slow.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// largeBuffer is what is not kept: whole Node objects may take megabytes, and few
// configurations send them.
const largeBuffer = 4 << 20

func getBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

// putBuffer takes a buffer back that nothing refers to any more.
func putBuffer(b *bytes.Buffer) {
	if b.Cap() > largeBuffer {
		return
	}
	b.Reset()
	buffers.Put(b)
}

// lists are memory for what has an entry for each node of a call.
type lists[T any] struct{ pool sync.Pool }

// manyEntries is how long a list may be that is kept: more than clusters have nodes.
const manyEntries = 1 << 17

// get returns an empty list. Put it back when nothing refers to it any more.
func (l *lists[T]) get() *[]T {
	if list, ok := l.pool.Get().(*[]T); ok {
		return list
	}
	return new([]T)
}

// put takes a list back; nil is fine.
func (l *lists[T]) put(list *[]T) {
	if list == nil || cap(*list) > manyEntries {
		return
	}
	clear(*list)
	*list = (*list)[:0]
	l.pool.Put(list)
}

var (
	nameLists    lists[string]
	placeLists   lists[int]
	refusalLists lists[refusal]
	rankLists    lists[extenderv1.HostPriority]
)
