// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import "strings"

// tailBytes is how much of a command's output its error quotes.
const tailBytes = 4 << 10

// tail keeps the end of what is written to it. It is not safe for concurrent use.
type tail struct{ last []byte }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > tailBytes {
		p = p[n-tailBytes:]
	}
	t.last = append(t.last, p...)
	if over := len(t.last) - tailBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return n, nil
}

// String is printable: what is neither text nor a line's end is left out.
func (t *tail) String() string {
	text := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f {
			return r
		}
		return -1
	}, strings.ToValidUTF8(string(t.last), ""))
	return strings.TrimSpace(text)
}
