// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
)

// tree makes a folder with links of many kinds.
func tree(t testing.TB) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(root, "a/b/c"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "a/file"), nil, 0o600))
	link(t, "b/c", root, "a/rel")
	link(t, root+"/a", root, "abs")
	link(t, "../..", root, "a/b/up")
	link(t, "loop", root, "loop")
	link(t, "/dev/none", root, "dangling")
	link(t, "../file/", root, "a/b/slash")
	return root
}

func TestWalk(t *testing.T) {
	root := tree(t)
	for _, to := range []string{
		"a", "a/", "a/rel", "abs/rel/../..", "a/b/up/abs/b", "loop", "loop/x", "dangling", "a/b/slash",
		"a/file", "a/file/", "a/file/..", "a/file/.", "none", "none/..", "..", ".", "/", "//dev//null",
		"abs/b/up/a/rel/../up/a/file", "", "/dev/null/..",
	} {
		same(t, root, to)
	}
}

func FuzzWalk(f *testing.F) {
	f.Add("abs/rel/../up")
	f.Add("a/b/slash")
	root := tree(f)
	f.Fuzz(func(t *testing.T, to string) {
		if len(to) < 1000 {
			same(t, root, to)
		}
	})
}

// same compares with what open(2) finds, as far as both find something or neither.
func same(t *testing.T, root, to string) {
	t.Helper()
	v, err := (&Prober{cfg: Config{HostMountinfo: mounts.Self}}).view()
	must(t, err)
	at, st, err := v.walk(root, to)
	full := root + "/" + to
	if filepath.IsAbs(to) {
		full = to
	}
	fd, kernel := unix.Open(full, unix.O_PATH|unix.O_CLOEXEC, 0)
	if kernel != nil {
		if err == nil {
			t.Errorf("%q: found %s, the kernel finds %v", to, at, kernel)
		}
		return
	}
	defer unix.Close(fd)
	if err != nil {
		if _, ok := errors.AsType[*barrierError](err); !ok {
			t.Errorf("%q: %v, and the kernel finds it", to, err)
		}
		return
	}
	want, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	must(t, err)
	if at != want || st == nil {
		t.Errorf("%q: found %s, the kernel %s", to, at, want)
	}
}
