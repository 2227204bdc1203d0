// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

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

// escape writes a value with colons, percent and at signs, and non-printable bytes and
// non-ASCII as %XX, so that different values stay different.
func escape(b *strings.Builder, v string) {
	for i := range len(v) {
		if c := v[i]; c <= ' ' || c >= 0x7f || c == ':' || c == '%' || c == '@' {
			fmt.Fprintf(b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
}

// tidy removes the padding that hardware adds: leading and trailing blanks and NULs, and
// repeated blanks between words.
func tidy(v string) string {
	return strings.Join(strings.FieldsFunc(v, func(r rune) bool {
		return r == 0 || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	}), " ")
}

// distinguishes reports whether a number distinguishes a disk from others. Hardware without one
// reports zeros, another repeated character, or a dash.
func distinguishes(number string) bool {
	digits := strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(number)
	return digits != "" && strings.Trim(digits, digits[:1]) != ""
}
