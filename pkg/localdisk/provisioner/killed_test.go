// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
)

// TestDiskOfAKilledProvisioner: what a process may write to that was killed and cannot end is
// left alone until it has ended. Other disks are not concerned.
func TestDiskOfAKilledProvisioner(t *testing.T) {
	f, state, proc := fact("disk1"), t.TempDir(), t.TempDir()
	before, err := diskrecord.Open(state, "/proc")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(before.Put(disk.Record{
		Identity: f.Identity, Key: f.Key, HostPath: f.HostPath, Kind: f.Kind, Mode: disk.Filesystem, State: disk.Cleaning, Cluster: cluster,
		Policy: disk.Delete, Phase: disk.PhaseReleased, Generation: 7,
	}), before.Close()); err != nil {
		t.Fatal(err)
	}
	// This process has the lock, and proc says that it is process 4711 and was killed.
	lock, err := os.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	var st unix.Stat_t
	if err := errors.Join(unix.Flock(int(lock.Fd()), unix.LOCK_EX), unix.Fstat(int(lock.Fd()), &st)); err != nil {
		t.Fatal(err)
	}
	task := filepath.Join(proc, "4711", "task", "4712")
	if err := errors.Join(
		os.MkdirAll(task, 0o700),
		os.WriteFile(filepath.Join(proc, "locks"), fmt.Appendf(nil, "1: FLOCK  ADVISORY  WRITE 4711 %02x:%02x:%d 0 EOF\n", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino), 0o600),
		os.WriteFile(filepath.Join(task, "status"), []byte("State:\tD (disk sleep)\nSigPnd:\t0000000000000100\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(w *env) {
		w.records, err = diskrecord.Open(state, proc)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { w.stop(); _ = w.records.Close() }()
		identity := w.disks.add("disk1", "half cleaned")
		w.disks.add("disk2", "")
		w.start()
		w.pass(time.Hour)
		w.expect("disk1", "Cleaning: TimedOut")
		w.expect("disk2", "Pending")
		if got := w.disks.cleaned(); len(got) > 0 || w.disks.read(identity) != "half cleaned" {
			t.Errorf("cleaned %q, data %q", got, w.disks.read(identity))
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Minute)
		if got := w.disks.cleaned(); len(got) != 1 || w.disks.read(identity) != "" {
			t.Errorf("once the process has ended: cleaned %q, data %q", got, w.disks.read(identity))
		}
		w.expect("disk1", "Pending")
	})
}
