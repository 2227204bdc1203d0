// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestBlankProofsSurviveARestart(t *testing.T) {
	folder := t.TempDir()
	want := map[disk.Identity]disk.BlankProof{
		"wwn:1":     {State: "boot/1/2/3", Bytes: 100, Done: 7},
		"weak:b1:2": {State: "boot/1/2/3", Bytes: 100, Done: 9, Found: true},
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, file string)
		want   map[disk.Identity]disk.BlankProof
	}{
		"unchanged": {change: func(*testing.T, string) {}, want: want},
		"damaged": {
			change: func(t *testing.T, file string) {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				text[len(text)/2]++
				if err := os.WriteFile(file, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}, want: map[disk.Identity]disk.BlankProof{},
		},
		"removed": {
			change: func(t *testing.T, file string) {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}, want: map[disk.Identity]disk.BlankProof{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(folder, "/proc")
			if err != nil {
				t.Fatal(err)
			}
			all := map[disk.Identity]disk.BlankProof{"wwn:1": want["wwn:1"], "weak:b1:2": want["weak:b1:2"]}
			all["wwn:2"] = disk.BlankProof{State: "impossible", Bytes: 10, Done: 11}
			if err := s.PutBlankProofs(all); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			test.change(t, filepath.Join(folder, proofsFile))
			if s, err = Open(folder, "/proc"); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if diff := cmp.Diff(test.want, s.BlankProofs()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(s.All()) > 0 || len(s.Damaged()) > 0 {
				t.Error("the file of blank proofs counts as a record")
			}
		})
	}
}

func TestHealthSurvivesARestart(t *testing.T) {
	folder := t.TempDir()
	since := time.Unix(1_000_000, 0).UTC()
	want := map[disk.Identity]disk.Health{
		"wwn:1": {State: disk.Failing, Since: since, Reason: disk.WriteLost, Message: "found"},
		"wwn:2": {State: disk.Degraded, Since: since, Reason: disk.DiskErrors, Errors: 2, Counters: map[string]uint64{"ext4 ": 2}, Hung: true},
	}
	s, err := Open(folder, "/proc")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.PutBlankProofs(map[disk.Identity]disk.BlankProof{}), s.PutHealth(want), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(folder, "/proc"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if diff := cmp.Diff(want, s.Health()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.Rename(filepath.Join(folder, proofsFile), filepath.Join(folder, healthFile)); err != nil {
		t.Fatal(err)
	}
	if got := s.Health(); len(got) > 0 {
		t.Errorf("of a file with other content: %v", got)
	}
}

func TestDiskSlotsSurviveARestart(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, slotsFile)
	for name, test := range map[string]struct {
		change func() error
		want   int
	}{
		"unchanged": {change: func() error { return nil }, want: 7},
		"damaged": {change: func() error {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			return os.WriteFile(file, bytes.Replace(text, []byte(`"slots":7`), []byte(`"slots":8`), 1), 0o600)
		}},
		"removed": {change: func() error { return os.Remove(file) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(folder, "/proc")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.PutDiskSlots(9), s.PutDiskSlots(7), s.Close(), test.change()); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(folder, "/proc"); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := s.DiskSlots(); got != test.want {
				t.Errorf("DiskSlots is %d, want %d", got, test.want)
			}
			if len(s.All()) > 0 || len(s.Damaged()) > 0 {
				t.Errorf("the file counts as a record: %v, %v", s.All(), s.Damaged())
			}
		})
	}
}
