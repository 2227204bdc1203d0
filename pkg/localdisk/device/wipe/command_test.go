// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/deadline"
)

func TestCommand(t *testing.T) {
	const clean = "dd if=/dev/zero of=$LOCAL_PV_BLKDEVICE bs=1M count=2 conv=fsync 2>/dev/null\n"
	tests := map[string]struct {
		body string
		mode disk.Mode
		want disk.Reason
		// message is part of the error.
		says  string
		fails bool
	}{
		"one that cleans":                         {body: clean, mode: disk.Block},
		"one that succeeds without cleaning":      {body: "exit 0\n", mode: disk.Block, fails: true, want: disk.CleanFailed, says: "data at byte 0"},
		"one that fails with output":              {body: "echo so it is >&2; exit 3\n", mode: disk.Block, fails: true, says: "so it is"},
		"one that needs the device for itself":    {body: "exec 3<>$LOCAL_PV_BLKDEVICE || exit 1\nwipefs -a $LOCAL_PV_BLKDEVICE && blkdiscard $LOCAL_PV_BLKDEVICE\n", mode: disk.Block},
		"one that cannot be executed as it is":    {body: "", mode: disk.Filesystem},
		"one that leaves bytes that mean nothing": {body: "exit 0\n", mode: disk.Filesystem},
		"one that kills itself":                   {body: "kill -9 $$\n", mode: disk.Filesystem, fails: true, says: "killed"},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			need(t, "dd", "wipefs", "blkdiscard")
			dev := loop(t, dirty(t, 2*mib))
			tg := target(t, dev, s.mode, script(t, filepath.Join(t.TempDir(), "clean"), s.body))
			verified := 0
			tg.Verify = func(*os.File) error { verified++; return nil }
			err := Run(t.Context(), tg, nil)
			if (err != nil) != s.fails || reason(err) != s.want {
				t.Fatalf("error %v, want %q", err, s.want)
			}
			if err != nil && !strings.Contains(err.Error(), s.says) {
				t.Errorf("error %v does not returns %q", err, s.says)
			}
			if err == nil && verified != 2 {
				t.Errorf("identity was checked %d times, want 2", verified)
			}
		})
	}
}

func TestMissingCommand(t *testing.T) {
	folder := t.TempDir()
	plain := filepath.Join(folder, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dev := loop(t, dirty(t, mib))
	for _, path := range []string{folder, filepath.Join(folder, "none"), plain, plain + "/x"} {
		if err := Run(t.Context(), target(t, dev, disk.Block, path), nil); reason(err) != disk.CleanerMissing {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

func TestCommandEnvironment(t *testing.T) {
	t.Setenv("SECRET", "of the provisioner")
	dev := loop(t, blank(t, mib))
	said := filepath.Join(t.TempDir(), "said")
	cleaner := script(t, filepath.Join(t.TempDir(), "clean"), fmt.Sprintf("{ env -u PWD -u SHLVL -u _ | sort; pwd; echo \"$@\"; readlink /proc/$$/fd/* | grep -c %s; } > %s; true\n", dev, said))
	if err := Run(t.Context(), target(t, dev, disk.Block, cleaner, "a b", "$c"), nil); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	// It inherits no descriptor of the device.
	want := fmt.Sprintf("LOCAL_PV_BLKDEVICE=%s\nPATH=%s\n/\na b $c\n0\n", dev, toolPath)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestDiskReplacedDuringACommand(t *testing.T) {
	dev := loop(t, blank(t, mib))
	replaced := errors.New("another disk")
	tg := target(t, dev, disk.Block, "/bin/true")
	calls := 0
	tg.Verify = func(*os.File) error {
		if calls++; calls == 2 {
			return replaced
		}
		return nil
	}
	if err := Run(t.Context(), tg, nil); !errors.Is(err, replaced) {
		t.Errorf("error %v, want %v", err, replaced)
	}
}

func TestCancelledCommand(t *testing.T) {
	dev := loop(t, blank(t, mib))
	pipe, line := fifo(t)
	cleaner := script(t, filepath.Join(t.TempDir(), "clean"), "sleep 100 &\necho $! > "+pipe+"\nwait\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("too late")
	child := -1
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel(late)
		pid, err := strconv.Atoi(line())
		if err != nil {
			t.Error(err)
			return
		}
		if child, err = unix.PidfdOpen(pid, 0); err != nil {
			t.Error(err)
		}
	}()
	err := Run(ctx, target(t, dev, disk.Block, cleaner), nil)
	<-done
	if !errors.Is(err, late) {
		t.Errorf("error %v, want %v", err, late)
	}
	if child >= 0 {
		defer unix.Close(child)
		dies(t, child)
	}
}

// dies waits until a process, a pidfd, has ended.
func dies(t *testing.T, process int) {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, int(deadline.Wait().Milliseconds()))
	if n != 1 {
		t.Errorf("the child lives: %d, %v", n, err)
	}
}

func TestCommandsChildrenAreKilled(t *testing.T) {
	dev := loop(t, blank(t, mib))
	pipe, line := fifo(t)
	cleaner := script(t, filepath.Join(t.TempDir(), "clean"), "sleep 100 </dev/null >/dev/null 2>&1 &\necho $! > "+pipe+"\n")
	if err := Run(t.Context(), target(t, dev, disk.Block, cleaner), nil); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(line())
	if err != nil {
		t.Fatal(err)
	}
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	dies(t, process)
}
