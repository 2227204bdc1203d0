// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if root := os.Getenv(environmentClean); root != "" {
		if err := cleanInCgroup(root, os.Getenv(environmentCgroup)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// kinds are the file systems of the tests.
var kinds = []string{"ext4", "xfs", "btrfs", "tmpfs"}

// onEach runs a test on a file system of each kind.
func onEach(t *testing.T, test func(t *testing.T, root string)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { test(t, mount(t, kind)) })
	}
}

// mount makes a file system, mounts it and returns its mount point. That it can be unmounted
// at the end is part of every test: nothing in it may stay open.
func mount(t *testing.T, kind string) string {
	t.Helper()
	if kind == "tmpfs" {
		at := mountPoint(t)
		run(t, "mount", "-t", "tmpfs", "-o", "size=512m,nr_inodes=0", "tmpfs", at)
		return at
	}
	options := map[string][]string{
		"ext4":  {"-q", "-N", "200000"},
		"xfs":   {"-q"},
		"btrfs": {"-q"},
	}
	return mountImage(t, kind, 512<<20, options[kind]...)
}

// mountImage makes a file system of so many bytes in a file, and mounts it.
func mountImage(t *testing.T, kind string, bytes int64, options ...string) string {
	t.Helper()
	at := mountPoint(t)
	image := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, bytes))
	run(t, "mkfs."+kind, append(options, image)...)
	run(t, "mount", "-o", "loop", image, at)
	return at
}

// forget makes the kernel drop what it caches of a file system in a file.
func forget(t *testing.T, at string) {
	t.Helper()
	device := strings.TrimSpace(run(t, "findmnt", "-n", "-o", "SOURCE", at))
	image := strings.TrimSpace(run(t, "losetup", "-n", "-O", "BACK-FILE", device))
	must(t, unix.Unmount(at, 0))
	run(t, "mount", "-o", "loop", image, at)
}

// mountPoint makes a directory from which the test unmounts at its end.
func mountPoint(t *testing.T) string {
	t.Helper()
	needRoot(t)
	at := filepath.Join(t.TempDir(), "volume")
	must(t, os.Mkdir(at, 0o755))
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL {
			t.Errorf("unmount: %v", err)
			_ = unix.Unmount(at, unix.MNT_DETACH)
		}
	})
	return at
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
}

// run runs a tool, or skips if the machine does not have it.
func run(t *testing.T, tool string, arguments ...string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Skipf("no %s here", tool)
	}
	out, err := exec.Command(path, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", tool, strings.Join(arguments, " "), err, out)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a root without verification.
func open(t *testing.T, path string) *Root {
	t.Helper()
	r, err := Open(path, nil)
	must(t, err)
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// outside makes a folder outside of the volume, whose content is checked at the end.
func outside(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	canary := filepath.Join(dir, "folder", "canary")
	write(t, canary, "alive")
	t.Cleanup(func() {
		if text, err := os.ReadFile(canary); err != nil || string(text) != "alive" {
			t.Errorf("the canary outside the volume: %q, %v", text, err)
		}
	})
	return dir
}

// names lists a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// descriptors counts the process's open descriptors.
func descriptors(t *testing.T) int {
	t.Helper()
	return len(names(t, "/proc/self/fd"))
}
