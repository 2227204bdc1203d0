// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestDiscard(t *testing.T) {
	dev := loop(t, dirty(t, 20*mib+512))
	if err := Run(t.Context(), target(t, dev, disk.Block, "blkdiscard"), nil); err != nil {
		t.Fatal(err)
	}
	if at := firstSet(bytesOf(t, dev)); at >= 0 {
		t.Errorf("byte %d is left", at)
	}
}

// A loop device on ramfs can neither discard nor punch holes.
func TestDiscardUnsupported(t *testing.T) {
	need(t)
	point := t.TempDir()
	if err := unix.Mount("none", point, "ramfs", 0, ""); err != nil {
		t.Skipf("mount ramfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	file := filepath.Join(point, "disk")
	if err := os.Rename(dirty(t, 512), file); err == nil {
		t.Fatal("ramfs is not mounted")
	}
	data, err := os.ReadFile(dirty(t, 2*mib+512))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	dev := loop(t, file)
	before := sum(t, dev)
	if err := Run(t.Context(), target(t, dev, disk.Block, "blkdiscard"), nil); reason(err) != disk.CleanerMissing {
		t.Errorf("blkdiscard: error %v", err)
	}
	if sum(t, dev) != before {
		t.Error("blkdiscard changed the device")
	}
	if err := Run(t.Context(), target(t, dev, disk.Block, "zero"), nil); err != nil {
		t.Errorf("zero: %v", err)
	}
	if at := firstSet(bytesOf(t, dev)); at >= 0 {
		t.Errorf("zero: byte %d is left", at)
	}
}

// partitioned attaches a file with two partitions, of which the first ends with an odd
// sector.
func partitioned(t *testing.T, file string) string {
	t.Helper()
	need(t, "addpart")
	dev := loop(t, file, "--partscan")
	for _, p := range [][]string{{"1", "2048", "20481"}, {"2", "24576", "57344"}} {
		if out, err := exec.Command("addpart", append([]string{dev}, p...)...).CombinedOutput(); err != nil {
			t.Skipf("add a partition to %s: %v\n%s", dev, err, out)
		}
	}
	return dev
}

func TestPartitionTableIsReread(t *testing.T) {
	dev := partitioned(t, blank(t, 40*mib))
	partition := func(n int) string {
		return fmt.Sprintf("/sys/class/block/%sp%d/partition", filepath.Base(dev), n)
	}
	if _, err := os.Stat(partition(1)); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), target(t, dev, disk.Filesystem), nil); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		if _, err := os.Stat(partition(n)); err == nil {
			t.Errorf("partition %d is still there", n)
		}
	}
}

func TestCleanPartition(t *testing.T) {
	dev := partitioned(t, dirty(t, 40*mib))
	part := dev + "p1"
	tools := fakeTool(t)
	r := &run{Target: target(t, part, disk.Block, "hdparm"), tools: tools.folder}
	if err := r.run(t.Context()); reason(err) != disk.CleanerMissing {
		t.Errorf("hdparm: error %v", err)
	}
	if calls := tools.calls(t); len(calls) > 0 {
		t.Errorf("hdparm was called: %q", calls)
	}
	if err := Run(t.Context(), target(t, part, disk.Block, "zero"), nil); err != nil {
		t.Fatal(err)
	}
	if at := firstSet(bytesOf(t, part)); at >= 0 {
		t.Errorf("byte %d is left", at)
	}
	if got := bytesOf(t, dev+"p2"); got[0] != 0xa5 || got[len(got)-1] != 0xa5 {
		t.Error("the other partition was changed")
	}
}

// cached counts the bytes of an open device that are in the page cache.
func cached(t *testing.T, f *os.File, size int64) int64 {
	t.Helper()
	mapped, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mapped) }()
	page := os.Getpagesize()
	in := make([]byte, (len(mapped)+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(len(mapped)), uintptr(unsafe.Pointer(&in[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	n := int64(0)
	for _, i := range in {
		n += int64(i&1) * int64(page)
	}
	return n
}

func TestPageCacheIsNotUsed(t *testing.T) {
	const size = 20 * mib
	for _, method := range []string{"fs-reset", "zero", "dd-zero", "shred", "blkdiscard"} {
		dev := loop(t, dirty(t, size))
		f, err := os.Open(dev) // the cache goes when the last one closes the device
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		// The cache is dropped, so that no reader gets old bytes.
		if _, err := io.Copy(io.Discard, f); err != nil {
			t.Fatal(err)
		}
		if cached(t, f, size) < size {
			t.Error("reading does not fill the cache: this test proves nothing")
		}
		if err := Run(t.Context(), target(t, dev, disk.Filesystem, method), nil); err != nil {
			t.Fatal(err)
		}
		if n := cached(t, f, size); n > 0 {
			t.Errorf("%s leaves %d bytes in the page cache", method, n)
		}
		if _, _, err := Inspect(t.Context(), dev, disk.Block); err != nil {
			t.Fatal(err)
		}
		if n := cached(t, f, size); n > 0 {
			t.Errorf("Inspect leaves %d bytes in the page cache", n)
		}
	}
}

func TestIdlePriority(t *testing.T) {
	priority := func() uintptr {
		p, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioProcess, 0, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		return p >> 13
	}
	dev := loop(t, blank(t, mib))
	tg := target(t, dev, disk.Block, "zero")
	var verify, report uintptr
	tg.Verify = func(*os.File) error { verify = priority(); return nil }
	if err := Run(t.Context(), tg, func(disk.Progress) error { report = priority(); return nil }); err != nil {
		t.Fatal(err)
	}
	if verify != ioprioIdle>>13 || report == ioprioIdle>>13 {
		t.Errorf("class %d while cleaning, %d while reporting", verify, report)
	}
}
