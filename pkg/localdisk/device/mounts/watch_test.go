// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package mounts

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/test/deadline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const self = "/proc/self/mountinfo"

// tmpfs mounts one at a path, and unmounts what is there when the test ends.
func tmpfs(t *testing.T, path string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	if err := unix.Mount("stowage-test", path, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
}

func TestReadOfRealMounts(t *testing.T) {
	// A name with everything that the kernel escapes.
	path := filepath.Join(t.TempDir(), "a b\tc\nd\\e#f")
	tmpfs(t, path)
	first := at(t, path)
	if first == nil || first.FSType != "tmpfs" || first.Source != "stowage-test" || first.ReadOnly() {
		t.Fatalf("mount is %+v", first)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if unix.Major(st.Dev) != first.Major || unix.Minor(st.Dev) != first.Minor {
		t.Errorf("device is %d:%d, stat returns %#x", first.Major, first.Minor, st.Dev)
	}

	tmpfs(t, path) // on top of the first
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	second := at(t, path)
	if second == nil || second.ID == first.ID || second.Parent != first.ID {
		t.Errorf("of two mounts, the second on %d, the topmost is %+v", first.ID, second)
	}
}

// at returns the mount at a path now.
func at(t *testing.T, path string) *Mount {
	t.Helper()
	tab, err := Read(self)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := tab.At(path)
	return m
}

func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m")
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	// Other processes mount and unmount on this machine too, and cause calls.
	calls := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Watch(ctx, self, func() {
			select {
			case calls <- struct{}{}:
			default:
			}
		})
	}()
	giveUp := time.After(deadline.Wait())
	await := func(what string, right func() bool) {
		t.Helper()
		for {
			select {
			case <-calls:
				if right() {
					return
				}
			case <-giveUp:
				t.Fatalf("no notification of %s", what)
			}
		}
	}
	await("the beginning", func() bool { return true })
	tmpfs(t, path)
	await("a mount", func() bool { return at(t, path) != nil })
	if err := unix.Unmount(path, 0); err != nil {
		t.Fatal(err)
	}
	await("an unmount", func() bool { return at(t, path) == nil })
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("ended with %v", err)
		}
	case <-giveUp:
		t.Error("did not end with its context")
	}
}

func TestChangeDuringACall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m")
	ctx, cancel := deadline.Context(t.Context())
	defer cancel()
	calls := 0
	err := Watch(ctx, self, func() {
		switch calls++; calls {
		case 1:
			tmpfs(t, path)
		case 2:
			cancel()
		}
	})
	if err != nil || calls != 2 {
		t.Errorf("%d calls and error %v; want a second call for the mount made in the first", calls, err)
	}
}

func TestWatchOfAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Watch(ctx, self, func() {}); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestWatchOfAMissingFile(t *testing.T) {
	if err := Watch(t.Context(), filepath.Join(t.TempDir(), "none"), func() {}); err == nil {
		t.Error("no error")
	}
}
