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

// TestDiskOfAKilledProvisioner: a disk that a killed process may still write to is left alone
// until the process has ended. Other disks are not affected.
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
	// This process has the lock; in the fake proc it is process 4711, which was killed.
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
	inBubble(t, func(e *env) {
		e.records, err = diskrecord.Open(state, proc)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { e.stop(); _ = e.records.Close() }()
		identity := e.disks.add("disk1", "half cleaned")
		e.disks.add("disk2", "")
		e.start()
		e.pass(time.Hour)
		e.expect("disk1", "Cleaning: TimedOut")
		e.expect("disk2", "Pending")
		if got := e.disks.cleaned(); len(got) > 0 || e.disks.read(identity) != "half cleaned" {
			t.Errorf("cleaned %q, data %q", got, e.disks.read(identity))
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		e.pass(5 * time.Minute)
		if got := e.disks.cleaned(); len(got) != 1 || e.disks.read(identity) != "" {
			t.Errorf("once the process has ended: cleaned %q, data %q", got, e.disks.read(identity))
		}
		e.expect("disk1", "Pending")
	})
}
