// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		command []string
		mode    disk.Mode
		want    Method
		fails   bool
	}{
		"the default for file systems":           {mode: disk.Filesystem, want: Method{Name: FSReset}},
		"the default for raw blocks":             {mode: disk.Block, want: Method{Name: Zero}},
		"a configured method for raw blocks":     {command: []string{"fs-reset"}, mode: disk.Block, want: Method{Name: FSReset}},
		"discard":                                {command: []string{"blkdiscard"}, mode: disk.Block, want: Method{Name: BlkDiscard}},
		"secure erase":                           {command: []string{"hdparm"}, mode: disk.Block, want: Method{Name: HDParm}},
		"zeros, without a number, once":          {command: []string{"dd-zero"}, mode: disk.Block, want: Method{Name: DDZero, Passes: 1}},
		"zeros, twice":                           {command: []string{"dd-zero", "2"}, mode: disk.Block, want: Method{Name: DDZero, Passes: 2}},
		"random, without a number, three times":  {command: []string{"shred"}, mode: disk.Block, want: Method{Name: Shred, Passes: 3}},
		"random, as often as allowed":            {command: []string{"shred", "100"}, mode: disk.Block, want: Method{Name: Shred, Passes: 100}},
		"a command with arguments":               {command: []string{"/bin/x", "-a", ""}, mode: disk.Block, want: Method{Name: "/bin/x", Args: []string{"-a", ""}}},
		"no passes are no clean":                 {command: []string{"dd-zero", "0"}, mode: disk.Block, fails: true},
		"passes without end":                     {command: []string{"shred", "101"}, mode: disk.Block, fails: true},
		"passes that are no number":              {command: []string{"shred", "x"}, mode: disk.Block, fails: true},
		"two numbers":                            {command: []string{"shred", "1", "2"}, mode: disk.Block, fails: true},
		"an argument for a method that has none": {command: []string{"zero", "1"}, mode: disk.Block, fails: true},
		"an unknown method":                      {command: []string{"format"}, mode: disk.Block, fails: true},
		"a relative command":                     {command: []string{"./x"}, mode: disk.Block, fails: true},
		"an empty name":                          {command: []string{""}, mode: disk.Block, fails: true},
		"a NUL byte in an argument":              {command: []string{"/bin/x", "a\x00b"}, mode: disk.Block, fails: true},
		"an unknown mode":                        {command: []string{"zero"}, mode: "Tape", fails: true},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(s.command, s.mode)
			if (err != nil) != s.fails {
				t.Fatalf("Parse(%q, %q): error %v", s.command, s.mode, err)
			}
			if diff := cmp.Diff(s.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestResume(t *testing.T) {
	const size = 100 * mib
	shred := Method{Name: Shred, Passes: 2}
	tests := map[string]struct {
		step   string
		method Method
		want   point
	}{
		"no step":                               {"", shred, point{1, 0}},
		"the second pass, in the middle":        {point{2, 8 * mib}.step(shred, size), shred, point{2, 8 * mib}},
		"the zeros after the random passes":     {point{3, 4 * mib}.step(shred, size), shred, point{3, 4 * mib}},
		"a pass that was finished":              {point{1, size}.step(shred, size), shred, point{1, size}},
		"another number of passes":              {point{2, 8 * mib}.step(Method{Name: Shred, Passes: 3}, size), shred, point{1, 0}},
		"another method":                        {point{1, 8 * mib}.step(Method{Name: Zero}, size), shred, point{1, 0}},
		"a disk of another size":                {point{2, 8 * mib}.step(shred, 2*size), shred, point{1, 0}},
		"a pass too many":                       {"shred/2 4:0/104857600", shred, point{1, 0}},
		"a pass below the first":                {"shred/2 0:8388608/104857600", shred, point{1, 0}},
		"beyond the end":                        {"shred/2 1:209715200/104857600", shred, point{1, 0}},
		"before the beginning":                  {"shred/2 1:-4194304/104857600", shred, point{1, 0}},
		"in the middle of what is written once": {"shred/2 1:5/104857600", shred, point{1, 0}},
		"something after it":                    {"shred/2 2:8388608/104857600 ", shred, point{1, 0}},
		"a number too large for any disk":       {"shred/2 1:99999999999999999999/104857600", shred, point{1, 0}},
		"the end of an earlier clean":           {finishedStep, shred, point{1, 0}},
		"an ATA erase":                          {securityStep + "00112233445566778899aabbccddeeff", shred, point{1, 0}},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			if got := resume(s.step, s.method, size); got != s.want {
				t.Errorf("resume(%q) = %v, want %v", s.step, got, s.want)
			}
		})
	}
}

func TestPassword(t *testing.T) {
	const p = "00112233445566778899aabbccddeeff"
	tests := map[string]struct{ step, want string }{
		"a recorded password":   {securityStep + p, p},
		"too short":             {securityStep + p[1:], ""},
		"an option instead":     {securityStep + "--security-disable-aaaaaaaaaaaaa", ""},
		"a finished erase":      {erasedStep, ""},
		"another method's step": {"zero 1:0/512", ""},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			if got := password(s.step); got != s.want {
				t.Errorf("password(%q) = %q, want %q", s.step, got, s.want)
			}
		})
	}
}
