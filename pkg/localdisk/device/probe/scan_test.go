// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestScan(t *testing.T) {
	type want struct {
		Kind   disk.Kind
		Reason disk.Reason
		Absent bool
	}
	type lab struct {
		disk.Folder
		// entry is the path at which the test's entry is to be.
		entry string
		scan  disk.Scan
		fstab string
	}
	tests := map[string]struct {
		make func(t *testing.T, l *lab)
		want want
	}{
		"a mounted file system": {
			make: func(t *testing.T, l *lab) { mount(t, l.entry, newFileSystem(t)) },
			want: want{Kind: disk.Mount},
		},
		"a file system in memory": {
			make: func(t *testing.T, l *lab) { mount(t, l.entry, "-t", "tmpfs", "-o", "size=2M", "none") },
			want: want{Kind: disk.Mount},
		},
		"a file system in memory without a limit": {
			make: func(t *testing.T, l *lab) { mount(t, l.entry, "-t", "ramfs", "none") },
			want: want{Kind: disk.Mount, Reason: disk.NoCapacity},
		},
		"a file system that is mounted read-only": {
			make: func(t *testing.T, l *lab) { mount(t, l.entry, "-o", "ro", newFileSystem(t)) },
			want: want{Kind: disk.Mount, Reason: disk.ReadOnly},
		},
		"a file system, and the class offers block devices": {
			make: func(t *testing.T, l *lab) {
				l.scan.Folders[0].Mode = disk.Block
				mount(t, l.entry, newFileSystem(t))
			},
			want: want{Kind: disk.Mount, Reason: disk.WrongVolumeMode},
		},
		"proc": {
			make: func(t *testing.T, l *lab) { mount(t, l.entry, "-t", "proc", "none") },
			want: want{Kind: disk.Mount, Reason: disk.UnsupportedFilesystem},
		},
		"an overlay": {
			make: func(t *testing.T, l *lab) {
				mount(t, l.entry, "-t", "overlay", "-o", "lowerdir=/usr/share:/usr/lib", "none")
			},
			want: want{Kind: disk.Mount, Reason: disk.UnsupportedFilesystem},
		},
		"all of the devices": {
			make: func(t *testing.T, l *lab) { mount(t, l.entry, "--bind", "/dev") },
			want: want{Kind: disk.Mount, Reason: disk.UnsupportedFilesystem},
		},
		"a file, mounted on a file": {
			make: func(t *testing.T, l *lab) {
				must(t, os.WriteFile(l.entry, nil, 0o600))
				file := filepath.Join(l.Path, "..", filepath.Base(l.Path)+".file")
				must(t, os.WriteFile(file, nil, 0o600))
				t.Cleanup(func() { _ = os.Remove(file) })
				t.Cleanup(func() { _ = unix.Unmount(l.entry, unix.MNT_DETACH) })
				run(t, "mount", "--bind", file, l.entry)
			},
			want: want{Kind: disk.Mount, Reason: disk.SpecialFile},
		},
		"a device, mounted on a file": {
			make: func(t *testing.T, l *lab) {
				must(t, os.WriteFile(l.entry, nil, 0o600))
				t.Cleanup(func() { _ = unix.Unmount(l.entry, unix.MNT_DETACH) })
				run(t, "mount", "--bind", newDisk(t), l.entry)
			},
			want: want{Kind: disk.Device},
		},
		"the discovery directory, mounted in itself": {
			make: func(t *testing.T, l *lab) { mount(t, l.entry, "--bind", l.Path) },
			want: want{Kind: disk.Mount, Reason: disk.DiscoveryDirectory},
		},
		"a directory that holds another class's discovery directory": {
			make: func(t *testing.T, l *lab) {
				inner := filepath.Join(l.entry, "inner")
				mount(t, l.entry, newFileSystem(t))
				must(t, os.Mkdir(inner, 0o755))
				l.scan.Folders = append(l.scan.Folders, disk.Folder{Class: "inner", Path: inner, HostPath: inner})
			},
			want: want{Kind: disk.Mount, Reason: disk.DiscoveryDirectory},
		},
		"a mount whose folder has been deleted": {
			make: func(t *testing.T, l *lab) {
				other := newFolder(t, "other").Path
				must(t, os.Mkdir(filepath.Join(other, "a"), 0o755))
				mount(t, l.entry, "--bind", filepath.Join(other, "a"))
				must(t, os.Remove(filepath.Join(other, "a")))
			},
			want: want{Kind: disk.Mount, Reason: disk.Unreadable},
		},
		"a link to a device": {
			make: func(t *testing.T, l *lab) { link(t, newDisk(t), l.entry) },
			want: want{Kind: disk.Device},
		},
		"a link through other links, with .. in it": {
			make: func(t *testing.T, l *lab) {
				link(t, newDisk(t), l.Path, ".real")
				link(t, "./../"+filepath.Base(l.Path)+"//.real", l.entry)
				l.scan.Folders[0].Names = []string{"entry", "x *"}
			},
			want: want{Kind: disk.Device},
		},
		"a link to a device that cannot be written": {
			make: func(t *testing.T, l *lab) { link(t, attach(t, image(t, "1M"), "-r"), l.entry) },
			want: want{Kind: disk.Device, Reason: disk.DeviceReadOnly},
		},
		"a link to a device with nothing in it": {
			make: func(t *testing.T, l *lab) {
				file := image(t, "1M")
				device := attach(t, file)
				must(t, os.Truncate(file, 0))
				run(t, "losetup", "-c", device)
				link(t, device, l.entry)
			},
			want: want{Kind: disk.Device, Reason: disk.NoCapacity},
		},
		"a link to a device that is mounted elsewhere": {
			make: func(t *testing.T, l *lab) {
				device := newFileSystem(t)
				elsewhere, err := os.MkdirTemp("", "elsewhere") //nolint:usetesting // What is removed with a mount still in it is removed in the mount.
				must(t, err)
				t.Cleanup(func() { _ = os.Remove(elsewhere) })
				mount(t, elsewhere, device)
				link(t, device, l.entry)
			},
			want: want{Kind: disk.Device, Reason: disk.InUse},
		},
		"a link to a character device": {
			make: func(t *testing.T, l *lab) { link(t, "/dev/null", l.entry) },
			want: want{Reason: disk.SpecialFile},
		},
		"a link to a folder of devices": {
			make: func(t *testing.T, l *lab) { link(t, "/dev/pts/..", l.entry) },
			want: want{Reason: disk.OutsideDirectory},
		},
		"a link to a directory": {
			make: func(t *testing.T, l *lab) { link(t, "..", l.entry) },
			want: want{Reason: disk.OutsideDirectory},
		},
		"a link to a device node that is not in /dev": {
			make: func(t *testing.T, l *lab) {
				must(t, unix.Mknod(filepath.Join(l.Path, ".node"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))))
				l.scan.Folders[0].Names = []string{"entry", "x *"}
				link(t, ".node", l.entry)
			},
			want: want{Reason: disk.OutsideDirectory},
		},
		"a link across a file system that may not answer": {
			make: func(t *testing.T, l *lab) { link(t, "/proc/self/fd/0", l.entry) },
			want: want{Reason: disk.OutsideDirectory},
		},
		"a link to nothing": {
			make: func(t *testing.T, l *lab) { link(t, "/dev/no-such-disk", l.entry) },
			want: want{Absent: true},
		},
		"a link to something below a device": {
			make: func(t *testing.T, l *lab) { link(t, "/dev/null/x", l.entry) },
			want: want{Absent: true},
		},
		"a link to itself": {
			make: func(t *testing.T, l *lab) { link(t, "entry", l.entry) },
			want: want{Reason: disk.Unreadable},
		},
		"a device node": {
			make: func(t *testing.T, l *lab) {
				var st unix.Stat_t
				must(t, unix.Stat(newDisk(t), &st))
				must(t, unix.Mknod(l.entry, unix.S_IFBLK|0o600, int(st.Rdev)))
			},
			want: want{Kind: disk.Device},
		},
		"a device node without a device": {
			make: func(t *testing.T, l *lab) {
				must(t, unix.Mknod(l.entry, unix.S_IFBLK|0o600, int(unix.Mkdev(4000, 77))))
			},
			want: want{Absent: true},
		},
		"a FIFO": {
			make: func(t *testing.T, l *lab) { must(t, unix.Mkfifo(l.entry, 0o600)) },
			want: want{Reason: disk.SpecialFile},
		},
		"a socket": {
			make: func(t *testing.T, l *lab) {
				s, err := net.Listen("unix", l.entry)
				must(t, err)
				t.Cleanup(func() { _ = s.Close() })
			},
			want: want{Reason: disk.SpecialFile},
		},
		"a character device": {
			make: func(t *testing.T, l *lab) {
				must(t, unix.Mknod(l.entry, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
			},
			want: want{Reason: disk.SpecialFile},
		},
		"a file": {
			make: func(t *testing.T, l *lab) { must(t, os.WriteFile(l.entry, []byte("x"), 0o600)) },
			want: want{Reason: disk.SpecialFile},
		},
		"a directory of no class": {
			make: func(t *testing.T, l *lab) { must(t, os.Mkdir(l.entry, 0o755)) },
			want: want{Kind: disk.Directory, Reason: disk.NotMountPoint},
		},
		"a directory that a pattern matches": {
			make: func(t *testing.T, l *lab) {
				l.scan.Folders[0].Directories = []string{"x*", "ent*"}
				must(t, os.Mkdir(l.entry, 0o755))
			},
			want: want{Kind: disk.Directory},
		},
		"a directory, and the class offers block devices": {
			make: func(t *testing.T, l *lab) {
				l.scan.Folders[0].Mode = disk.Block
				must(t, os.Mkdir(l.entry, 0o755))
			},
			want: want{Kind: disk.Directory, Reason: disk.WrongVolumeMode},
		},
		"a directory on which fstab has a disk": {
			make: func(t *testing.T, l *lab) {
				l.scan.Folders[0].Directories = []string{"*"}
				l.fstab = "UUID=c0ffee " + l.entry + "/ ext4 defaults 0 2\n"
				must(t, os.Mkdir(l.entry, 0o755))
			},
			want: want{Kind: disk.Directory, Reason: disk.MountMissing},
		},
		"a directory on which there was a disk": {
			make: func(t *testing.T, l *lab) {
				l.scan.Folders[0].Directories = []string{"*"}
				l.scan.Known = []disk.Known{{Key: disk.Key{Class: "a", Name: "entry"}, Kind: disk.Mount, Identity: "fs:x:/"}}
				must(t, os.Mkdir(l.entry, 0o755))
			},
			want: want{Kind: disk.Directory, Reason: disk.MountMissing},
		},
		"a known slot that the class's names no longer match": {
			make: func(t *testing.T, l *lab) {
				l.scan.Folders[0].Names = []string{"x*"}
				l.scan.Known = []disk.Known{{Key: disk.Key{Class: "a", Name: "entry"}, Kind: disk.Device}}
				link(t, newDisk(t), l.entry)
			},
			want: want{Kind: disk.Device},
		},
		"a name that the class's names do not match": {
			make: func(t *testing.T, l *lab) {
				l.scan.Folders[0].Names = []string{"x*", "y"}
				link(t, newDisk(t), l.entry)
			},
			want: want{Absent: true},
		},
		"a known slot with nothing there": {
			make: func(t *testing.T, l *lab) {
				l.scan.Known = []disk.Known{{Key: disk.Key{Class: "a", Name: "entry"}, Kind: disk.Mount}}
			},
			want: want{Absent: true},
		},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t, "a")
			l := &lab{Folder: f, entry: filepath.Join(f.Path, "entry"), scan: disk.Scan{Folders: []disk.Folder{f}}}
			s.make(t, l)
			fstab := filepath.Join(t.TempDir(), "fstab")
			must(t, os.WriteFile(fstab, []byte(l.fstab), 0o600))
			p := newProber(t, func(c *Config) { c.Fstab = fstab })
			// Other entries must not matter.
			link(t, newDisk(t), l.Path, "x other")
			must(t, os.Mkdir(filepath.Join(l.Path, lostAndFound), 0o700))
			must(t, unix.Mkfifo(filepath.Join(l.Path, "x\nfifo"), 0o600))

			facts := scan(t, p, l.scan)
			if r := reason(facts["x other"]); r != "" || facts["x other"].Kind != disk.Device {
				t.Errorf("the device beside it: %+v", facts["x other"])
			}
			if _, ok := facts[lostAndFound]; ok {
				t.Error("lost+found is a candidate")
			}
			fact, ok := facts["entry"]
			got := want{Kind: fact.Kind, Reason: reason(fact), Absent: !ok}
			if diff := cmp.Diff(s.want, got); diff != "" {
				t.Errorf("wanted -, found +:\n%s%+v %v", diff, fact, fact.Problem)
			}
			if ok && (fact.Path != l.entry || fact.HostPath != l.entry) {
				t.Errorf("paths are %s and %s, not %s", fact.Path, fact.HostPath, l.entry)
			}
			if fact.Problem != nil && !strings.Contains(fact.Problem.Message, " ") {
				t.Errorf("message %q has no reason", fact.Problem.Message)
			}
		})
	}
}

func TestNamesOutsideTheDirectory(t *testing.T) {
	f := newFolder(t, "a")
	for name, want := range map[string]disk.Reason{
		"..": disk.OutsideDirectory, ".": disk.OutsideDirectory, "": disk.OutsideDirectory,
		"x/y": disk.OutsideDirectory, "../../etc": disk.OutsideDirectory, "/": disk.OutsideDirectory,
	} {
		facts := scan(t, newProber(t), disk.Scan{
			Folders: []disk.Folder{f},
			Known:   []disk.Known{{Key: disk.Key{Class: "a", Name: name}, Volume: "v"}},
		})
		if got := reason(facts[name]); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestUnreadableFolders(t *testing.T) {
	f := newFolder(t, "good")
	link(t, newDisk(t), f.Path, "disk")
	must(t, os.WriteFile(filepath.Join(f.Path, "file"), nil, 0o600))
	mount(t, filepath.Join(f.Path, "proc"), "-t", "proc", "none")
	folders := []disk.Folder{f}
	for class, path := range map[string]string{
		"gone":    filepath.Join(f.Path, "none"),
		"file":    filepath.Join(f.Path, "file"),
		"foreign": filepath.Join(f.Path, "proc"),
		"lost":    "relative",
	} {
		folders = append(folders, disk.Folder{Class: class, Path: path, HostPath: path})
	}
	folders = append(folders, disk.Folder{Class: "pattern", Path: f.Path, HostPath: f.Path, Names: []string{"[a"}})
	got := newProber(t).Scan(t.Context(), disk.Scan{
		Folders: folders,
		Known:   []disk.Known{{Key: disk.Key{Class: "gone", Name: "x"}}, {Key: disk.Key{Class: "unheard of", Name: "x"}}},
	})
	for _, l := range folders[1:] {
		if got.Trouble[l.Class] == nil {
			t.Errorf("%s is in no trouble", l.Class)
		}
	}
	if got.Trouble["good"] != nil {
		t.Errorf("good: %v", got.Trouble["good"])
	}
	for key := range got.Facts {
		if key.Class != "good" {
			t.Errorf("a fact of %s", key)
		}
	}
	if f := got.Facts[disk.Key{Class: "good", Name: "disk"}]; f.Problem != nil {
		t.Errorf("the good folder's disk: %v", f.Problem)
	}
}

func TestInvalidConfig(t *testing.T) {
	finder := finderFor(t, "/var/lib/kubelet")
	for name, cfg := range map[string]Config{
		"uses are unknown":     {},
		"a relative mountinfo": {Usage: finder, HostMountinfo: "mountinfo", Sys: "/sys", Dev: "/dev"},
		"a relative sysfs":     {Usage: finder, HostMountinfo: "/proc/1/mountinfo", Sys: "sys", Dev: "/dev"},
	} {
		if p, err := New(cfg); err == nil || p != nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// BenchmarkScan is a rescan of a hundred entries: 50 file systems in memory and 50
// links to devices.
func BenchmarkScan(b *testing.B) {
	f := newFolder(b, "a")
	device := newDisk(b)
	for i := range 50 {
		mount(b, filepath.Join(f.Path, fmt.Sprint("mnt", i)), "-t", "tmpfs", "-o", "size=1M", "none")
		link(b, device, f.Path, fmt.Sprint("dev", i))
	}
	p := newProber(b)
	ask := disk.Scan{Folders: []disk.Folder{f}}
	if got := len(p.Scan(b.Context(), ask).Facts); got != 100 {
		b.Fatalf("%d facts", got)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Scan(b.Context(), ask)
	}
}
