// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/testing/campaign"
)

const (
	environmentClean  = "STOWAGE_FILES_TEST_CLEAN"
	environmentCgroup = "STOWAGE_FILES_TEST_CGROUP"
)

// cleanLimited cleans a volume in another process, in a memory cgroup: it is killed if it
// needs more than so many bytes, including kernel memory such as dentries, inodes and
// buffers.
func cleanLimited(t *testing.T, root string, most int64) {
	t.Helper()
	group, peak := limit(t, most)
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), environmentClean+"="+root, environmentCgroup+"="+group)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err = cmd.Run()
	t.Logf("cleaned in %s, peak of the cgroup %d KiB: %s", time.Since(began).Round(time.Millisecond), peak()>>10, bytes.TrimSpace(out.Bytes()))
	if err != nil {
		t.Fatalf("clean in %d MiB: %v: %s", most>>20, err, out.Bytes())
	}
	checkEmpty(t, open(t, root))
}

// cleanInCgroup runs in the process of cleanLimited.
func cleanInCgroup(root, group string) error {
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
		return err
	}
	r, err := Open(root, nil)
	if err != nil {
		return err
	}
	err = r.Clean(context.Background(), nil)
	status, readErr := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM") {
			fmt.Fprint(os.Stdout, line)
		}
	}
	return errors.Join(err, readErr)
}

// limit makes a memory cgroup with a limit, and returns its folder and what reads the
// most that was charged to it.
func limit(t *testing.T, most int64) (group string, peak func() int64) {
	t.Helper()
	needRoot(t)
	base, files := "/sys/fs/cgroup/memory", map[string]string{"limit": "memory.limit_in_bytes", "peak": "memory.max_usage_in_bytes"}
	if controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.subtree_control"); err == nil && bytes.Contains(controllers, []byte("memory")) {
		base, files = "/sys/fs/cgroup", map[string]string{"limit": "memory.max", "peak": "memory.peak"}
	}
	group, err := os.MkdirTemp(base, "stowage-test-") //nolint:usetesting // cgroups are made in one place only
	if err != nil {
		t.Skipf("no memory cgroup can be made: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Rmdir(group); err != nil {
			t.Errorf("remove cgroup %s: %v", group, err)
		}
	})
	must(t, os.WriteFile(filepath.Join(group, files["limit"]), []byte(strconv.FormatInt(most, 10)), 0))
	return group, func() int64 {
		text, _ := os.ReadFile(filepath.Join(group, files["peak"]))
		n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return n
	}
}

// burrow makes a chain of directories with names of 250 bytes. It grows at its top, so that
// creating it needs no memory proportional to its depth.
func burrow(t *testing.T, at string, levels int) {
	t.Helper()
	const segment = 500
	name := strings.Repeat("d", 250)
	root, err := unix.Open(at, directoryFlags, 0)
	must(t, err)
	defer unix.Close(root)
	for made := 0; made < levels; made += segment {
		must(t, unix.Mkdirat(root, "top", 0o700))
		bottom := chain(t, at+"/top", min(segment, levels-made)-1, name)
		if made > 0 {
			must(t, unix.Renameat(root, name, bottom, name))
		}
		_ = unix.Close(bottom)
		must(t, unix.Renameat(root, "top", root, name))
	}
}

// widen makes so many files in one directory.
func widen(t *testing.T, at string, entries int) {
	t.Helper()
	fd, err := unix.Open(at, directoryFlags, 0)
	must(t, err)
	defer unix.Close(fd)
	name := strings.Repeat("f", 60)
	for i := range entries {
		must(t, unix.Mknodat(fd, name+strconv.Itoa(i), unix.S_IFREG, 0))
	}
}

func TestMemoryIsBounded(t *testing.T) {
	campaign.Begin(t)
	tests := map[string]struct {
		fill func(t *testing.T, at string, entries int)
		// block is the size of the file system's blocks, of which a directory has one.
		block int64
	}{
		"nested directories with long names": {fill: burrow, block: 1 << 10},
		"files in one directory":             {fill: widen, block: 4 << 10},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			entries := campaign.Scale(20_000, 1_000_000)
			root := mountImage(t, "ext4", int64(entries)*2<<10+128<<20, "-q", "-b", strconv.FormatInt(test.block, 10), "-N", strconv.Itoa(entries+1000))
			test.fill(t, root, entries)
			forget(t, root)
			cleanLimited(t, root, campaign.Scale[int64](32<<20, 64<<20))
		})
	}
}
