// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"sync"
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
