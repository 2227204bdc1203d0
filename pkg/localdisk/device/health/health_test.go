// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/test/deadline"
)

const longTime = time.Hour

// shown are the reasons of signs, without counters that are 0.
func shown(signs []disk.Sign) []disk.Reason {
	var found []disk.Reason
	for _, sign := range signs {
		if sign.Counter == "" || sign.Value > 0 {
			found = append(found, sign.Reason)
		}
	}
	return found
}

// breakExt4 makes ext4 behave as after an error of the disk. The kernel counts the error in a
// workqueue, after the write has returned.
func (l *lab) breakExt4() {
	l.t.Helper()
	folder := sysfs.Device(filepath.Join("/sys/fs/ext4", filepath.Base(l.device)))
	if err := os.WriteFile(filepath.Join(string(folder), "trigger_fs_error"), []byte("the test's"), 0); err != nil {
		l.t.Skipf("needs a kernel that can trigger errors of ext4: %v", err)
	}
	for end := time.Now().Add(deadline.Wait()); ; time.Sleep(time.Millisecond) {
		n, err := folder.Int("errors_count")
		if err != nil {
			l.t.Fatal(err)
		}
		if n > 0 {
			return
		}
		if time.Now().After(end) {
			l.t.Fatal("ext4 did not count the error")
		}
	}
}

// TestSigns produces the faults of disks, and what resembles one.
func TestSigns(t *testing.T) {
	for name, test := range map[string]struct {
		make   func(l *lab)
		happen func(l *lab)
		want   []disk.Reason
	}{
		"a sound file system": {
			make: func(l *lab) { l.attach(l.folder, "16M"); l.format("ext4") }, happen: func(*lab) {},
		},
		"an error with errors=continue": {
			make:   func(l *lab) { l.attach(l.folder, "16M"); l.format("ext4", "-o", "errors=continue") },
			happen: (*lab).breakExt4, want: []disk.Reason{disk.DiskErrors},
		},
		"an error with errors=remount-ro": {
			make:   func(l *lab) { l.attach(l.folder, "16M"); l.format("ext4", "-o", "errors=remount-ro") },
			happen: (*lab).breakExt4, want: []disk.Reason{disk.FilesystemError, disk.DiskErrors},
		},
		"XFS that was shut down": {
			make:   func(l *lab) { l.attach(l.folder, "320M"); l.format("xfs") },
			happen: func(l *lab) { l.run("xfs_io", "-x", "-c", "shutdown", l.point) }, want: []disk.Reason{disk.FilesystemError},
		},
		"a claim that is mounted read-only": {
			make: func(l *lab) { l.attach(l.folder, "16M"); l.format("ext4") },
			happen: func(l *lab) {
				pod := l.mount("pod", "--bind", l.point)
				l.run("mount", "-o", "bind,remount,ro", pod)
			},
		},
		"a device that rejects writes": {
			make: func(l *lab) { l.attach(l.folder, "16M") },
			happen: func(l *lab) {
				l.run("blockdev", "--setro", l.device)
				l.t.Cleanup(func() { l.run("blockdev", "--setrw", l.device) }) // it outlasts the loop device
			}, want: []disk.Reason{disk.DeviceReadOnly},
		},
		"a file system that is mounted read-only": {
			make: func(l *lab) { l.attach(l.folder, "16M"); l.format("ext4", "-o", "ro") }, happen: func(*lab) {},
		},
		"data that cannot be written, on ext4": {
			make: func(l *lab) {
				l.attach(l.mount("small", "-t", "tmpfs", "-o", "size=8M", "none"), "64M")
				l.format("ext4")
			},
			happen: (*lab).overfill, want: []disk.Reason{disk.WriteLost},
		},
		"a device that cannot be read": {
			make: func(l *lab) { l.attach(l.folder, "16M") },
			happen: func(l *lab) {
				if err := os.Truncate(l.image, 0); err != nil {
					l.t.Fatal(err)
				}
			}, want: []disk.Reason{disk.DiskErrors},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			test.make(l)
			target := l.target()
			r := newReader(t, target)
			test.happen(l)
			if diff := cmp.Diff(test.want, shown(readAll(t, r, target))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// overfill writes more than the disk can store, and requests that it is written to the disk.
func (l *lab) overfill() {
	file := filepath.Join(l.point, "file")
	_ = exec.Command("dd", "if=/dev/urandom", "of="+file, "bs=1M", "count=40", "conv=fsync").Run()
}

// TestHung: a device whose file is on a frozen file system answers no request.
func TestHung(t *testing.T) {
	l := newLab(t)
	l.attach(l.folder, "64M")
	l.format("ext4")
	inner := &lab{t: t, folder: l.folder}
	inner.attach(l.point, "16M")
	target := inner.target()
	r := newReader(t, target)
	l.run("fsfreeze", "-f", l.point)
	thaw := sync.OnceFunc(func() { l.run("fsfreeze", "-u", l.point) })
	defer thaw()
	writer := exec.Command("dd", "if=/dev/zero", "of="+inner.device, "bs=4096", "count=1", "oflag=direct")
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	for inner.waiting() == "0" {
		if t.Context().Err() != nil {
			return
		}
	}
	at := func(ago time.Duration) []disk.Reason {
		r.mu.Lock()
		for i := range r.stalls[inner.number(inner.device)].since {
			r.stalls[inner.number(inner.device)].since[i] = time.Now().Add(-ago)
		}
		r.mu.Unlock()
		signs, err := r.ReadHealth([]disk.HealthTarget{target}, 15*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return shown(signs[target.Identity])
	}
	if got := at(0); len(got) > 0 {
		t.Errorf("at once: %v", got)
	}
	if diff := cmp.Diff([]disk.Reason{disk.Hung}, at(time.Minute)); diff != "" {
		t.Errorf("after a minute (-want +got):\n%s", diff)
	}
	at(time.Minute)
	thaw()
	if err := writer.Wait(); err != nil {
		t.Error(err)
	}
	settle(r)
	if got := shown(readAll(t, r, target)); len(got) > 0 {
		t.Errorf("after it answers again: %v", got)
	}
}

// waiting is how many writes the kernel waits for.
func (l *lab) waiting() string {
	fields := strings.Fields(l.run("cat", "/sys/block/"+filepath.Base(l.device)+"/inflight"))
	return fields[1]
}
