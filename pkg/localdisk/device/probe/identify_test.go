// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestIdentify(t *testing.T) {
	tests := map[string]struct {
		make   func(t *testing.T, entry string)
		change func(t *testing.T, entry string)
		// want is the problem; none if the identity must be unchanged, or, if other is set,
		// another.
		want  disk.Reason
		other bool
	}{
		"a mount that is still there": {
			make:   func(t *testing.T, entry string) { mount(t, entry, newFileSystem(t)) },
			change: func(t *testing.T, entry string) {},
		},
		"a mount that has become read-only": {
			make:   func(t *testing.T, entry string) { mount(t, entry, newFileSystem(t)) },
			change: func(t *testing.T, entry string) { run(t, "mount", "-o", "remount,ro", entry) },
		},
		"a mount that is gone, never the directory beneath": {
			make:   func(t *testing.T, entry string) { mount(t, entry, newFileSystem(t)) },
			change: func(t *testing.T, entry string) { unmount(t, entry) },
			want:   disk.MountMissing,
		},
		"a mount that is gone with its directory": {
			make: func(t *testing.T, entry string) { mount(t, entry, newFileSystem(t)) },
			change: func(t *testing.T, entry string) {
				unmount(t, entry)
				must(t, os.Remove(entry))
			},
			want: disk.Missing,
		},
		"another disk has been mounted": {
			make: func(t *testing.T, entry string) { mount(t, entry, newFileSystem(t)) },
			change: func(t *testing.T, entry string) {
				unmount(t, entry)
				mount(t, entry, newFileSystem(t))
			},
			other: true,
		},
		"another disk has been mounted on top": {
			make:   func(t *testing.T, entry string) { mount(t, entry, newFileSystem(t)) },
			change: func(t *testing.T, entry string) { mount(t, entry, newFileSystem(t)) },
			other:  true,
		},
		"a link where a mount was": {
			make: func(t *testing.T, entry string) { mount(t, entry, newFileSystem(t)) },
			change: func(t *testing.T, entry string) {
				unmount(t, entry)
				must(t, os.Remove(entry))
				link(t, newDisk(t), entry)
			},
			want: disk.Replaced,
		},
		"a device that is still there": {
			make:   func(t *testing.T, entry string) { link(t, newDisk(t), entry) },
			change: func(t *testing.T, entry string) {},
		},
		"a link that leads to another device": {
			make: func(t *testing.T, entry string) { link(t, newDisk(t), entry) },
			change: func(t *testing.T, entry string) {
				must(t, os.Remove(entry))
				link(t, newDisk(t), entry)
			},
			other: true,
		},
		"a link that leads nowhere": {
			make: func(t *testing.T, entry string) { link(t, newDisk(t), entry) },
			change: func(t *testing.T, entry string) {
				must(t, os.Remove(entry))
				link(t, "/dev/none", entry)
			},
			want: disk.Missing,
		},
		"a link that leads to a directory": {
			make: func(t *testing.T, entry string) { link(t, newDisk(t), entry) },
			change: func(t *testing.T, entry string) {
				must(t, os.Remove(entry))
				link(t, "/etc", entry)
			},
			want: disk.OutsideDirectory,
		},
		"a directory that is still there": {
			make:   func(t *testing.T, entry string) { must(t, os.Mkdir(entry, 0o755)) },
			change: func(t *testing.T, entry string) {},
		},
		"a directory on which something was mounted": {
			make:   func(t *testing.T, entry string) { must(t, os.Mkdir(entry, 0o755)) },
			change: func(t *testing.T, entry string) { mount(t, entry, newFileSystem(t)) },
			want:   disk.Replaced,
		},
		"a FIFO where a directory was": {
			make: func(t *testing.T, entry string) { must(t, os.Mkdir(entry, 0o755)) },
			change: func(t *testing.T, entry string) {
				must(t, os.Remove(entry))
				must(t, unix.Mkfifo(entry, 0o600))
			},
			want: disk.SpecialFile,
		},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t, "a")
			f.Directories = []string{"*"}
			entry := filepath.Join(f.Path, "disk")
			s.make(t, entry)
			p := newProber(t)
			fact := one(t, p, f, "disk")
			s.change(t, entry)
			got, err := p.Identify(t.Context(), fact)
			var problem *disk.Problem
			switch {
			case s.want == "" && err != nil:
				t.Fatalf("error %v", err)
			case s.want == "" && (got != fact.Identity) != s.other:
				t.Fatalf("identity is %s, was %s", got, fact.Identity)
			case s.want != "" && (got != "" || !errors.As(err, &problem) || problem.Reason != s.want):
				t.Fatalf("identity is %q, error %v, want %s", got, err, s.want)
			}
		})
	}
}
