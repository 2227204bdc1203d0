// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavdir_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/pav/pavdir"
	"stowage.dev/stowage/pkg/pav/report"
)

// folder is a directory in place of /pav, with a secret beside it that no report may have.
type folder struct {
	t    testing.TB
	path string
}

func newFolder(t testing.TB) folder {
	t.Helper()
	f := folder{t, filepath.Join(t.TempDir(), "pav")}
	f.do(os.Mkdir(f.path, 0o700))
	f.do(os.WriteFile(filepath.Join(f.path, "../secret"), []byte("secret"), 0o600))
	return f
}

func (f folder) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) write(name, text string) {
	f.t.Helper()
	f.do(os.WriteFile(filepath.Join(f.path, name), []byte(text), 0o600))
}

func (f folder) mkdir(name string) {
	f.t.Helper()
	f.do(os.Mkdir(filepath.Join(f.path, name), 0o700))
}

func (f folder) link(target, name string) {
	f.t.Helper()
	f.do(os.Symlink(target, filepath.Join(f.path, name)))
}

func (f folder) node(name string, mode uint32, device uint64) {
	f.t.Helper()
	f.do(unix.Mknod(filepath.Join(f.path, name), mode|0o600, int(device)))
}

// report is that of the directory.
func (f folder) report() report.Report {
	f.t.Helper()
	d, err := pavdir.Open(f.path)
	f.do(err)
	defer d.Close()
	return d.Report()
}

// volume is what a report says of an entry of the directory that is a directory.
func (f folder) volume(name string) report.Volume {
	f.t.Helper()
	var st unix.Stat_t
	f.do(unix.Stat(filepath.Join(f.path, name), &st))
	return report.Volume{
		Kind: report.Directory, Inode: st.Ino,
		FileSystem: fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)),
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 10<<20)
	for name, test := range map[string]struct {
		fill func(folder)
		want func(folder) report.Report
		root bool
	}{
		"nothing": {},
		"what a creation pod writes with echo": {
			fill: func(f folder) { f.write("handle", "bucket\n"); f.write("capacity", "10Gi\r\n") },
			want: func(folder) report.Report { return report.Report{Handle: new("bucket"), Capacity: new("10Gi")} },
		},
		"only newlines at the end are left out": {
			fill: func(f folder) { f.write("handle", " a\nb \n\n"); f.write("error", "\nfailed\n") },
			want: func(folder) report.Report { return report.Report{Handle: new(" a\nb "), Error: "\nfailed"} },
		},
		"an empty handle is a handle": {
			fill: func(f folder) { f.write("handle", "\n") },
			want: func(folder) report.Report { return report.Report{Handle: new("")} },
		},
		"reschedule": {
			fill: func(f folder) { f.write("reschedule", ""); f.write("error", "no space") },
			want: func(folder) report.Report { return report.Report{Reschedule: true, Error: "no space"} },
		},
		"reschedule is a link to nothing": {
			fill: func(f folder) { f.link("nothing", "reschedule") },
			want: func(folder) report.Report { return report.Report{Reschedule: true} },
		},
		"a directory is the volume": {
			fill: func(f folder) { f.mkdir("volume") },
			want: func(f folder) report.Report { return report.Report{Volume: f.volume("volume")} },
		},
		"the volume is a link with an absolute path": {
			fill: func(f folder) { f.mkdir("data"); f.link("/data", "volume") },
			want: func(f folder) report.Report { return report.Report{Volume: f.volume("data")} },
		},
		"the volume is a link that climbs, which stays inside": {
			fill: func(f folder) { f.mkdir("data"); f.link("../../../data", "volume") },
			want: func(f folder) report.Report { return report.Report{Volume: f.volume("data")} },
		},
		"the volume is a link out of the directory": {
			fill: func(f folder) { f.link("/etc", "volume") },
			want: func(folder) report.Report {
				return report.Report{Problems: []string{"/pav/volume: is a link to a path that does not exist inside of /pav"}}
			},
		},
		"the volume is a link to itself": {
			fill: func(f folder) { f.link("volume", "volume") },
			want: func(folder) report.Report {
				return report.Report{Problems: []string{"/pav/volume: too many levels of symbolic links"}}
			},
		},
		"the volume is a file": {
			fill: func(f folder) { f.write("volume", "") },
			want: func(folder) report.Report {
				return report.Report{Problems: []string{"/pav/volume: is a regular file, must be a directory or a block device"}}
			},
		},
		"links out of the directory": {
			fill: func(f folder) {
				f.link("../secret", "handle")
				f.link("/proc/self/environ", "capacity")
				f.link("/etc/passwd", "error")
			},
			want: func(folder) report.Report {
				const outside = ": is a link to a path that does not exist inside of /pav"
				return report.Report{Problems: []string{"/pav/handle" + outside, "/pav/capacity" + outside}, Error: "/pav/error" + outside}
			},
		},
		"a link inside of the directory": {
			fill: func(f folder) { f.write("id", "h"); f.link("/id", "handle") },
			want: func(folder) report.Report { return report.Report{Handle: new("h")} },
		},
		"files that are none": {
			fill: func(f folder) {
				f.node("handle", unix.S_IFIFO, 0)
				f.mkdir("capacity")
				f.node("error", unix.S_IFSOCK, 0)
			},
			want: func(folder) report.Report {
				return report.Report{
					Problems: []string{"/pav/handle: is a FIFO, must be a regular file", "/pav/capacity: is a directory, must be a regular file"},
					Error:    "/pav/error: is a socket, must be a regular file",
				}
			},
		},
		"devices are not opened": {
			root: true,
			fill: func(f folder) {
				f.node("handle", unix.S_IFCHR, unix.Mkdev(1, 5)) // /dev/zero
				f.node("capacity", unix.S_IFBLK, unix.Mkdev(4095, 1))
				f.node("volume", unix.S_IFBLK, unix.Mkdev(4095, 1))
			},
			want: func(folder) report.Report {
				return report.Report{Problems: []string{
					"/pav/handle: is a character device, must be a regular file",
					"/pav/capacity: is a block device, must be a regular file",
					"/pav/volume: is block device 4095:1, which this node does not have",
				}}
			},
		},
		"huge files": {
			fill: func(f folder) { f.write("handle", huge); f.write("error", huge) },
			want: func(folder) report.Report {
				return report.Report{Problems: []string{"/pav/handle: has more than 4096 bytes"}, Error: huge[:report.MaxBytes+1]}
			},
		},
		"a handle that is no text": {
			fill: func(f folder) { f.write("handle", "\xff") },
			want: func(folder) report.Report { return report.Report{Problems: []string{"/pav/handle: is not UTF-8"}} },
		},
		"files on another file system": {
			root: true,
			fill: func(f folder) {
				f.mkdir("other")
				f.do(unix.Mount("stowage-test", filepath.Join(f.path, "other"), "tmpfs", 0, "size=1m"))
				f.t.Cleanup(func() { f.do(unix.Unmount(filepath.Join(f.path, "other"), unix.MNT_DETACH)) })
				f.write("other/id", "h")
				f.mkdir("other/data")
				f.link("other/id", "handle")
				f.link("other/data", "volume")
			},
			want: func(f folder) report.Report {
				return report.Report{Problems: []string{"/pav/handle: is on another file system than /pav"}, Volume: f.volume("other/data")}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.root && os.Getuid() != 0 {
				t.Skip("needs root for devices and mounts")
			}
			f, want := newFolder(t), report.Report{}
			if test.fill != nil {
				test.fill(f)
				want = test.want(f)
			}
			if diff := cmp.Diff(want, f.report()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBlockDevice: the size of a device is reported, whether the volume is a node or a link to one.
func TestBlockDevice(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("losetup"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and losetup")
	}
	f := newFolder(t)
	disk := filepath.Join(t.TempDir(), "disk")
	f.do(os.WriteFile(disk, nil, 0o600))
	f.do(os.Truncate(disk, 3<<20))
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", disk).Output()
	f.do(err)
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { f.do(exec.Command("losetup", "--detach", device).Run()) })
	var st unix.Stat_t
	f.do(unix.Stat(device, &st))
	f.node("node", unix.S_IFBLK, st.Rdev)
	f.link("node", "volume")
	want := f.volume("node")
	want.Kind, want.Bytes, want.Device = report.BlockDevice, 3<<20, fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	if diff := cmp.Diff(report.Report{Volume: want}, f.report()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPermissions: a file of another user that the reporter may not read is a problem, not a missing
// file.
func TestPermissions(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root to change the user of file accesses")
	}
	f := newFolder(t)
	f.do(os.Chmod(f.path, 0o755))
	f.write("handle", "h")
	f.write("error", "e")
	d, err := pavdir.Open(f.path)
	f.do(err)
	defer d.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f.do(unix.Setfsuid(65532))
	got := d.Report()
	f.do(unix.Setfsuid(0))
	denied := fmt.Sprintf(": permission denied for user %d", os.Getuid())
	want := report.Report{Problems: []string{"/pav/handle" + denied}, Error: "/pav/error" + denied}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("file", "")
	for _, name := range []string{"missing", "file"} {
		if _, err := pavdir.Open(filepath.Join(f.path, name)); err == nil {
			t.Errorf("%s was opened as a directory", name)
		}
	}
}
