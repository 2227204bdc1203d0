// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import "testing"

func TestTail(t *testing.T) {
	var out tail
	for range 3 * OutputBytes / 8 {
		_, _ = out.Write([]byte("12345\x1b\xff\n"))
	}
	if len(out.last) != OutputBytes {
		t.Errorf("keeps %d bytes, want %d", len(out.last), OutputBytes)
	}
	_, _ = out.Write(append(make([]byte, 2*OutputBytes), "the end\n"...))
	if got := out.String(); got != "the end" {
		t.Errorf("String() = %q", got)
	}
}
