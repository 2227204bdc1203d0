// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package identity

import (
	"strings"
	"testing"
)

func FuzzPagesOfHardware(f *testing.F) {
	f.Add([]byte(page83))
	f.Add([]byte("\x00\x80\x00\x04ABCD"))
	f.Fuzz(func(t *testing.T, page []byte) {
		for _, id := range []string{string(named("wwn", designator(page))), string(compose("serial", "", unitSerial(page)))} {
			if strings.ContainsAny(id, " \n\t\x00") {
				t.Fatalf("%q holds blanks", id)
			}
		}
	})
}

func FuzzEscapedValuesStayApart(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("%3A", "", ":", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one, two := compose("x", a, b), compose("x", c, d)
		if (one == two) != (a == c && b == d) {
			t.Fatalf("%q,%q and %q,%q: %q and %q", a, b, c, d, one, two)
		}
	})
}
