// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestOpenBeneath(t *testing.T) {
	root := mount(t, "tmpfs")
	out := outside(t)
	for _, dir := range []string{"directory", "other", "same", "directory/below"} {
		must(t, os.Mkdir(root+"/"+dir, 0o700))
	}
	mountOn(t, out, root+"/other", "", unix.MS_BIND)
	mountOn(t, root+"/directory", root+"/same", "", unix.MS_BIND)
	must(t, os.Symlink(out, root+"/symlink"))
	must(t, os.Symlink("directory", root+"/inner symlink"))
	must(t, os.Symlink("/proc/self/root", root+"/magic"))
	must(t, unix.Mkfifo(root+"/fifo", 0o600))
	fd, err := unix.Open(root, directoryFlags, 0)
	must(t, err)
	defer func() { _ = unix.Close(fd) }()
	for name, want := range map[string]error{
		"directory":              nil,
		"other":                  unix.EXDEV,
		"same":                   unix.EXDEV,
		"symlink":                unix.ENOTDIR,
		"inner symlink":          unix.ENOTDIR,
		"magic":                  unix.ENOTDIR,
		"fifo":                   unix.ENOTDIR,
		"missing":                unix.ENOENT,
		"..":                     unix.EUCLEAN,
		".":                      unix.EUCLEAN,
		"":                       unix.EUCLEAN,
		"directory/below":        unix.EUCLEAN,
		"/":                      unix.EUCLEAN,
		"directory\x00":          unix.EUCLEAN,
		strings.Repeat("n", 256): unix.ENAMETOOLONG,
	} {
		opened, err := openBeneath(fd, name, directoryFlags)
		if err == nil {
			_ = unix.Close(opened)
		}
		damaged := errors.Is(want, unix.EUCLEAN) && err != nil && strings.Contains(err.Error(), want.Error())
		if !errors.Is(err, want) && !damaged {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
}

func TestRelativePathIsBounded(t *testing.T) {
	frames := []*frame{{}, {name: "a"}, {name: "b"}}
	if diff := cmp.Diff([]string{"a/b/c", "a/b", ""}, []string{relative(frames, "c"), relative(frames, ""), relative(frames[:1], "")}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for range 1000 {
		frames = append(frames, &frame{name: "level"})
	}
	if path := relative(frames, "c"); len(path) > pathBytes+10 || !strings.HasPrefix(path, ".../level/") || !strings.HasSuffix(path, "/level/c") {
		t.Errorf("%d bytes: %s", len(path), path)
	}
}
