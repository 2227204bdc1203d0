// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// tiny mounts a file system of so many bytes in memory, until the test ends.
func tiny(t *testing.T, size int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	folder := t.TempDir()
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Error(err)
		}
	})
	if err := unix.Mount("stowage-test", folder, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("mount tmpfs: %v", err)
	}
	return folder
}

// TestFullDisk: a record for which there is no space damages no other, and leaves no file
// behind.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(tiny(t, 16*4096), "disks")
	s := open(t, folder)
	put(t, s, record("wwn:0x1"))
	before := summary(s)
	large := record("wwn:0x2")
	large.Root = json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)
	if err := s.Put(large); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("Put: %v, want no space", err)
	}
	large.Identity = "wwn:0x1"
	if err := s.Put(large); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("Put again: %v, want no space", err)
	}
	if got := summary(s); got != before {
		t.Errorf("the store returns %q, and returned %q", got, before)
	}
	if err := s.Put(inState("wwn:0x1", disk.Cleaning)); err != nil {
		t.Errorf("a small record fits still: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := summary(open(t, folder)); got != "wwn:0x1 Cleaning" {
		t.Errorf("after reopening the store returns %q", got)
	}
}

// TestReadOnlyFolder: writes fail, reads succeed.
func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	mount := tiny(t, 1<<20)
	folder := filepath.Join(mount, "disks")
	s := open(t, folder)
	put(t, s, record("wwn:0x1"))
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for verb, err := range map[string]error{
		"Put": s.Put(record("wwn:0x2")), "Put again": s.Put(inState("wwn:0x1", disk.Clean)), "Delete": s.Delete("wwn:0x1"),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v, want that the file system is read-only", verb, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, open(t, folder)} {
		if got := summary(s); got != "wwn:0x1 Published" {
			t.Errorf("the store returns %q", got)
		}
	}
}
