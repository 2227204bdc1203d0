// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// breakExt4 makes ext4 behave as after an error of the disk.
func breakExt4(t *testing.T, device string) {
	t.Helper()
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(device), "trigger_fs_error")
	if err := os.WriteFile(trigger, []byte("the test's"), 0); err != nil {
		t.Skipf("needs a kernel that can trigger errors of ext4: %v", err)
	}
}

// newXFS is a loop device with XFS on it.
func newXFS(t *testing.T) string {
	t.Helper()
	needs(t, "mkfs.xfs", "xfs_io")
	device := attach(t, image(t, "320M"))
	run(t, "mkfs.xfs", "-q", device)
	return device
}

func shutDown(t *testing.T, point string) {
	t.Helper()
	run(t, "xfs_io", "-x", "-c", "shutdown", point)
}

// setReadOnly makes a device reject writes. A loop device keeps that beyond its end.
func setReadOnly(t *testing.T, device string) {
	t.Helper()
	needs(t, "blockdev")
	t.Cleanup(func() { run(t, "blockdev", "--setrw", device) })
	run(t, "blockdev", "--setro", device)
}

// TestFailingDisks produces the faults that an examination detects, and what resembles one.
func TestFailingDisks(t *testing.T) {
	type lab struct {
		entry  string // the path of the test's entry
		aside  string // where kubelet mounts the volume for a pod
		other  string // and for another pod
		device string
	}
	mounted := func(options string) func(t *testing.T, l *lab) {
		return func(t *testing.T, l *lab) {
			l.device = newFileSystem(t)
			mount(t, l.entry, "-o", options, l.device)
		}
	}
	linked := func(t *testing.T, l *lab) {
		l.device = newFileSystem(t)
		link(t, l.device, l.entry)
	}
	bind := func(t *testing.T, from, to string, options ...string) {
		mount(t, to, "--bind", from)
		for _, option := range options {
			run(t, "mount", "-o", "bind,remount,"+option, to)
		}
	}
	for name, test := range map[string]struct {
		make   func(t *testing.T, l *lab)
		happen func(t *testing.T, l *lab)
		want   disk.Reason
	}{
		"ext4 that an error made read-only": {
			make: mounted("errors=remount-ro"), happen: func(t *testing.T, l *lab) { breakExt4(t, l.device) }, want: disk.FilesystemError,
		},
		"XFS that was shut down": {
			make:   func(t *testing.T, l *lab) { mount(t, l.entry, newXFS(t)) },
			happen: func(t *testing.T, l *lab) { shutDown(t, l.entry) }, want: disk.IOError,
		},
		"a mount whose device became read-only": {
			make: mounted("rw"), happen: func(t *testing.T, l *lab) { setReadOnly(t, l.device) }, want: disk.DeviceReadOnly,
		},
		"a device that became read-only": {
			make: linked, happen: func(t *testing.T, l *lab) { setReadOnly(t, l.device) }, want: disk.DeviceReadOnly,
		},
		"a device with ext4 of a pod that an error made read-only": {
			make: linked, want: disk.FilesystemError,
			happen: func(t *testing.T, l *lab) {
				mount(t, l.aside, "-o", "errors=remount-ro", l.device)
				breakExt4(t, l.device)
			},
		},
		"a device with XFS of a pod that was shut down": {
			make: func(t *testing.T, l *lab) { l.device = newXFS(t); link(t, l.device, l.entry) }, want: disk.IOError,
			happen: func(t *testing.T, l *lab) {
				mount(t, l.aside, l.device)
				shutDown(t, l.aside)
			},
		},
		"a claim that is mounted read-only": {
			make: mounted("rw"), happen: func(t *testing.T, l *lab) { bind(t, l.entry, l.aside, "ro") },
		},
		"a mount that an administrator made read-only": {
			make: mounted("rw"), happen: func(t *testing.T, l *lab) { run(t, "mount", "-o", "remount,ro", l.entry) }, want: disk.ReadOnly,
		},
		"a writable mount of a file system that was first mounted read-only": {
			make: mounted("rw"), want: disk.ReadOnly,
			happen: func(t *testing.T, l *lab) {
				unmount(t, l.entry)
				mount(t, l.aside, "-o", "ro", l.device)
				bind(t, l.aside, l.entry, "rw")
			},
		},
		"a device of a pod that reads only, and then of another pod": {
			make: linked,
			happen: func(t *testing.T, l *lab) {
				mount(t, l.aside, "-o", "ro", l.device)
				bind(t, l.aside, l.other, "rw")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t, "a")
			kubelet := t.TempDir()
			const volume = "volumes/kubernetes.io~local-volume/pv"
			l := &lab{entry: filepath.Join(f.Path, "entry"), aside: filepath.Join(kubelet, "pods/1", volume), other: filepath.Join(kubelet, "pods/2", volume)}
			test.make(t, l)
			p := newProber(t, func(c *Config) { c.Usage = finderFor(t, kubelet) })
			ask := disk.Scan{Folders: []disk.Folder{f}, Known: []disk.Known{{Key: disk.Key{Class: "a", Name: "entry"}, HostPath: l.entry, Volume: "pv"}}}
			if before := scan(t, p, ask)["entry"]; before.Problem != nil {
				t.Fatalf("at first: %v", before.Problem)
			}
			test.happen(t, l)
			after := scan(t, p, ask)["entry"]
			if got := reason(after); got != test.want {
				t.Errorf("reason %q, want %q: %v", got, test.want, after.Problem)
			}
		})
	}
}

// TestRepairedFileSystem: a repaired file system has no problem.
func TestRepairedFileSystem(t *testing.T) {
	needs(t, "e2fsck")
	f := newFolder(t, "a")
	point, device := filepath.Join(f.Path, "entry"), newFileSystem(t)
	mount(t, point, "-o", "errors=remount-ro", device)
	breakExt4(t, device)
	p := newProber(t)
	if got := scan(t, p, disk.Scan{Folders: []disk.Folder{f}})["entry"]; reason(got) != disk.FilesystemError || got.Identity == "" {
		t.Errorf("after an error: %+v", got)
	}
	unmount(t, point)
	run(t, "sh", "-c", "e2fsck -fy "+device+" >/dev/null || [ $? -eq 1 ]")
	mount(t, point, "-o", "errors=remount-ro", device)
	if got := scan(t, p, disk.Scan{Folders: []disk.Folder{f}})["entry"]; got.Problem != nil {
		t.Errorf("after a check: %v", got.Problem)
	}
}

// TestMountedDeviceIsGone: mountinfo still shows the mount.
func TestMountedDeviceIsGone(t *testing.T) {
	f := newFolder(t, "a")
	point := filepath.Join(f.Path, "entry")
	mount(t, point, newFileSystem(t))
	sys := t.TempDir() // without that device
	p := newProber(t, func(c *Config) { c.Sys = sys })
	if got := scan(t, p, disk.Scan{Folders: []disk.Folder{f}})["entry"]; reason(got) != disk.IOError {
		t.Errorf("reason %q, want %q", reason(got), disk.IOError)
	}
}

// TestIOError: a missing permission of this process is no fault of the disk.
func TestIOError(t *testing.T) {
	for err, want := range map[error]bool{
		&os.PathError{Op: "statx", Path: "/x", Err: unix.EIO}: true, unix.ENODATA: true, unix.EUCLEAN: true,
		unix.EACCES: false, unix.EPERM: false, unix.EMFILE: false, unix.ENOSYS: false, errExchanged: false,
	} {
		if got := ioError(err); got != want {
			t.Errorf("%v is an I/O error: %t, want %t", err, got, want)
		}
	}
}
