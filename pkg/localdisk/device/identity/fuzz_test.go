// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"regexp"
	"strings"
	"testing"
)

// FuzzNamesOfHardware gives the parsers arbitrary reports of devices: nothing panics, an
// identity has no blanks, and only a name of a registered kind is valid on every machine.
func FuzzNamesOfHardware(f *testing.F) {
	for _, seed := range []string{
		page83, "\x00\x80\x00\x04ABCD", "naa.5000c500a1b2c3d4", "eui.0025385b71b00e0a", "uuid.6b8b4567-327b-23c6-643c-986966334873",
		"nvme.1ae0-6e766d655f63617264-6e766d655f63617264-00000001", "t10.ATA     QEMU HARDDISK    QM00005", "nvme.-", "naa.", ".", "a@b:c%",
	} {
		f.Add([]byte(seed), "serial", "model")
	}
	known := regexp.MustCompile(`^((naa\.[256]|eui\.)[0-9a-fA-F]{15,32}|uuid\.[0-9a-fA-F-]{32,})$`)
	f.Fuzz(func(t *testing.T, report []byte, model, serial string) {
		for _, n := range []kernelName{{"nvme", tidy(string(report))}, {"wwn", designator(report)}} {
			if n.registered() && !known.MatchString(n.text) {
				t.Fatalf("%q is no registered name", n.text)
			}
			if n.registered() && n.distinctive() {
				t.Fatalf("%q is registered and is not", n.text)
			}
			id := name{string(compose(n.scheme, n.text)), "@m1"}.identity()
			if strings.ContainsAny(string(id), " \n\t\x00") || id.Machine() != "m1" {
				t.Fatalf("%q has blanks, or another machine", id)
			}
		}
		id := name{string(compose("serial", tidy(model), unitSerial(report))) + string(compose("", tidy(serial))), "@m1"}.identity()
		if id.Weak() || id.Machine() != "m1" {
			t.Fatalf("%q is not limited to its machine", id)
		}
	})
}

func FuzzEscape(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("%3A", "", ":", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one, two := compose("x", a, b), compose("x", c, d)
		if (one == two) != (a == c && b == d) {
			t.Fatalf("%q,%q and %q,%q: %q and %q", a, b, c, d, one, two)
		}
	})
}
