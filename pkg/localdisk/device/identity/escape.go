// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package identity

import (
	"fmt"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// compose joins a scheme and its values, each escaped.
func compose(scheme string, values ...string) disk.Identity {
	var b strings.Builder
	b.WriteString(scheme)
	for _, v := range values {
		b.WriteByte(':')
		escape(&b, v)
	}
	return disk.Identity(b.String())
}

// escape writes a value with colons, percent and at signs, and whatever is not printable
// ASCII as %XX, so that different values stay different.
func escape(b *strings.Builder, v string) {
	for i := range len(v) {
		if c := v[i]; c <= ' ' || c >= 0x7f || c == ':' || c == '%' || c == '@' {
			fmt.Fprintf(b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
}

// tidy is what the kernel says without the padding that hardware adds: leading and
// trailing blanks and NULs go, blanks between words become one.
func tidy(v string) string {
	return strings.Join(strings.FieldsFunc(v, func(r rune) bool {
		return r == 0 || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	}), " ")
}

// telling says whether a number tells a disk from others. Hardware that was never
// given one says zeros, or one other character over and over, or a dash.
func telling(number string) bool {
	digits := strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(number)
	return digits != "" && strings.Trim(digits, digits[:1]) != ""
}
