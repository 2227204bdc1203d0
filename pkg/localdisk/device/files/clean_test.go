// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// contents are what users leave in volumes.
var contents = map[string]func(t *testing.T, root, outside string){
	"nothing": func(*testing.T, string, string) {},
	"names of any bytes": func(t *testing.T, root, _ string) {
		for _, name := range []string{" ", "-rf", "*", "\n", "\xff\xfe", "...", strings.Repeat("n", 255), "a\tb", "(deleted)"} {
			write(t, filepath.Join(root, name), "x")
			must(t, os.MkdirAll(root+"/dir/"+name+"/"+name, 0o700))
		}
	},
	"files without permissions, sparse, and with many links": func(t *testing.T, root, _ string) {
		write(t, root+"/none", "x")
		must(t, os.Chmod(root+"/none", 0))
		must(t, os.Mkdir(root+"/closed", 0))
		write(t, root+"/closed/x", "x")
		write(t, root+"/sparse", "")
		must(t, os.Truncate(root+"/sparse", 1<<40))
		for i := range foreignLimit + 500 {
			must(t, os.Link(root+"/none", fmt.Sprintf("%s/closed/link%d", root, i)))
		}
	},
	"FIFO, socket, device, whiteout": func(t *testing.T, root, _ string) {
		must(t, unix.Mkfifo(root+"/fifo", 0o600))
		must(t, unix.Mknod(root+"/null", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		must(t, unix.Mknod(root+"/whiteout", unix.S_IFCHR, 0))
		must(t, unix.Mknod(root+"/nodisk", unix.S_IFBLK|0o600, int(unix.Mkdev(240, 77))))
		t.Chdir(root)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "socket"})
		must(t, err)
		l.SetUnlinkOnClose(false)
		must(t, l.Close())
		t.Chdir("/")
	},
	"symlinks to what is outside": func(t *testing.T, root, outside string) {
		must(t, os.Symlink(outside, root+"/folder"))
		must(t, os.Symlink(outside+"/folder/canary", root+"/file"))
		must(t, os.Symlink("../..", root+"/up"))
		must(t, os.Symlink("/proc/self/root", root+"/magic"))
		must(t, os.Mkdir(root+"/d", 0o700))
		must(t, os.Symlink(root, root+"/d/loop"))
	},
	"immutable and append-only files and directories, the root too": func(t *testing.T, root, _ string) {
		must(t, os.MkdirAll(root+"/fixed/in", 0o700))
		for _, name := range []string{"/a", "/i", "/fixed/a", "/fixed/in/i"} {
			write(t, root+name, "x")
			must(t, unix.Mkfifo(root+name+".fifo", 0o600))
		}
		run(t, "chattr", "+a", root+"/a", root+"/fixed/a", root+"/fixed/in")
		run(t, "chattr", "+i", root+"/i", root+"/fixed/in/i", root+"/fixed", root)
	},
}

func TestCleanDeletesEverything(t *testing.T) {
	for name, fill := range contents {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, root string) {
				fill(t, root, outside(t))
				before := descriptors(t)
				r := open(t, root)
				must(t, r.Clean(t.Context(), nil))
				checkEmpty(t, r)
				if after := descriptors(t); after != before {
					t.Errorf("%d descriptors before, %d after", before, after)
				}
				var want []string
				if strings.Contains(t.Name(), "ext4") {
					want = []string{lostAndFound}
				}
				if diff := cmp.Diff(want, names(t, root)); diff != "" {
					t.Errorf("left in the root (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func checkEmpty(t *testing.T, r *Root) {
	t.Helper()
	content, what, err := r.Empty(t.Context())
	must(t, err)
	if content != disk.ContentNone {
		t.Errorf("Empty returns %s, %q", content, what)
	}
}

func TestCleanDeepAndWideTrees(t *testing.T) {
	tests := map[string]func(t *testing.T, root string){
		"10,000 levels, files on each": func(t *testing.T, root string) {
			deepen(t, root, max(inMemory(t, 10_000), 3000))
		},
		"100,000 entries": func(t *testing.T, root string) {
			t.Chdir(root)
			for i := range inMemory(t, 100_000) {
				must(t, unix.Mknod(strconv.Itoa(i), unix.S_IFREG, 0))
				if i%50 == 0 {
					must(t, os.Mkdir("directory "+strconv.Itoa(i), 0o700))
				}
			}
			t.Chdir("/")
		},
		"branches deeper than is held open": func(t *testing.T, root string) {
			for i := range 10 {
				at := fmt.Sprintf("%s/%d", root, i)
				must(t, os.Mkdir(at, 0o700))
				deepen(t, at, levels+10)
				deepen(t, at+"/d", levels+3)
			}
		},
	}
	for name, fill := range tests {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, root string) {
				fill(t, root)
				before := descriptors(t)
				r := open(t, root)
				most := 0
				report := &reporter{progress: func(disk.Progress) error { most = max(most, descriptors(t)); return nil }, every: 50 * time.Millisecond}
				must(t, r.do(func(fd int) error { return r.passes(t.Context(), fd, report) }))
				checkEmpty(t, r)
				if most > before+levels+3 {
					t.Errorf("%d descriptors open at a time", most-before)
				}
			})
		})
	}
}

// inMemory returns the size for file systems in memory, and a tenth of it for those on disks,
// which are slower.
func inMemory(t *testing.T, size int) int {
	if strings.HasSuffix(t.Name(), "/tmpfs") {
		return size
	}
	return size / 10
}

// deepen makes a chain of directories, each with files before and after the next.
func deepen(t *testing.T, at string, levels int) {
	t.Helper()
	fd, err := unix.Open(at, directoryFlags, 0)
	must(t, err)
	for range levels {
		for _, name := range []string{"a", "z"} {
			if err := unix.Mknodat(fd, name, unix.S_IFREG, 0); err != nil && err != unix.EEXIST {
				t.Fatal(err)
			}
		}
		if err := unix.Mkdirat(fd, "d", 0o700); err != nil && err != unix.EEXIST {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", directoryFlags, 0)
		must(t, err)
		_ = unix.Close(fd)
		fd = next
	}
	_ = unix.Close(fd)
}

func TestLostAndFound(t *testing.T) {
	root := mount(t, "ext4")
	lost := root + "/lost+found"
	write(t, lost+"/#12", "found")
	must(t, os.MkdirAll(lost+"/d/lost+found", 0o777))
	must(t, os.MkdirAll(root+"/folder/lost+found", 0o700))
	must(t, os.Chmod(lost, 0o777))
	must(t, os.Chown(lost, 1000, 1000))
	must(t, unix.Setxattr(lost, "user.secret", []byte("kept"), 0))
	r := open(t, root)
	if content, what, err := open(t, root).Empty(t.Context()); err != nil || content != disk.ContentSome || what == "" {
		t.Errorf("Empty before: %s, %q, %v", content, what, err)
	}
	folder := open(t, root+"/folder")
	checkEmpty(t, folder)
	must(t, folder.Clean(t.Context(), nil))
	if diff := cmp.Diff([]string(nil), names(t, root+"/folder")); diff != "" {
		t.Errorf("a folder's own lost+found stays:\n%s", diff)
	}
	must(t, r.Clean(t.Context(), nil))
	checkEmpty(t, r)
	var st unix.Stat_t
	must(t, unix.Stat(lost, &st))
	if st.Uid != 0 || st.Gid != 0 || st.Mode&0o7777 != 0o700 {
		t.Errorf("lost+found of %d:%d with mode %o", st.Uid, st.Gid, st.Mode)
	}
	if n, err := unix.Getxattr(lost, "user.secret", nil); err != unix.ENODATA {
		t.Errorf("lost+found has its attribute: %d, %v", n, err)
	}
}

func TestLostAndFoundThatIsNoDirectory(t *testing.T) {
	root := mount(t, "ext4")
	must(t, os.Remove(root+"/lost+found"))
	must(t, os.Symlink(outside(t), root+"/lost+found"))
	r := open(t, root)
	if content, what, err := r.Empty(t.Context()); err != nil || content != disk.ContentSome || what != lostAndFound {
		t.Errorf("Empty before: %s, %q, %v", content, what, err)
	}
	must(t, r.Clean(t.Context(), nil))
	if diff := cmp.Diff([]string(nil), names(t, root)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestSubvolumes(t *testing.T) {
	root := mount(t, "btrfs")
	run(t, "btrfs", "subvolume", "create", root+"/a")
	write(t, root+"/a/file", "x")
	run(t, "btrfs", "subvolume", "create", root+"/a/b")
	run(t, "btrfs", "subvolume", "create", root+"/a/b/c")
	write(t, root+"/a/b/c/file", "x")
	run(t, "btrfs", "subvolume", "snapshot", "-r", root+"/a", root+"/fixed") // has a stub for b
	run(t, "btrfs", "subvolume", "snapshot", root+"/a", root+"/a/again")
	run(t, "btrfs", "subvolume", "snapshot", "-r", root+"/a/b/c", root+"/a/again/fixed")
	run(t, "btrfs", "property", "set", root+"/a/b", "ro", "true")
	run(t, "btrfs", "property", "set", root+"/a/again", "ro", "true")
	run(t, "btrfs", "property", "set", root, "ro", "true")
	r := open(t, root)
	must(t, r.Clean(t.Context(), nil))
	checkEmpty(t, r)
	if left := run(t, "btrfs", "subvolume", "list", root); strings.TrimSpace(left) != "" {
		t.Errorf("left: %s", left)
	}
}

func TestProgress(t *testing.T) {
	onEach(t, func(t *testing.T, root string) {
		for _, name := range []string{"/a", "/b"} {
			must(t, os.WriteFile(root+name, make([]byte, 4<<20), 0o600))
		}
		unix.Sync()
		r := open(t, root)
		failure := errors.New("cannot record")
		if err := r.Clean(t.Context(), func(disk.Progress) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("Clean: %v", err)
		}
		for _, name := range []string{"/a", "/b"} {
			must(t, os.WriteFile(root+name, make([]byte, 4<<20), 0o600))
		}
		unix.Sync()
		var last disk.Progress
		must(t, r.Clean(t.Context(), func(p disk.Progress) error { last = p; return nil }))
		if last.Method != Method || last.Done < 8<<20 || last.Done > 9<<20 || last.Total != 0 || last.Step != "" {
			t.Errorf("last progress %+v", last)
		}
	})
}

func TestCleanIsCancelled(t *testing.T) {
	root := mount(t, "tmpfs")
	deepen(t, root, 200)
	r := open(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	report := &reporter{progress: func(disk.Progress) error {
		if calls++; calls == 100 {
			cancel()
		}
		return nil
	}}
	before := descriptors(t)
	err := r.do(func(fd int) error { return r.passes(ctx, fd, report) })
	if !errors.Is(err, context.Canceled) || calls != 100 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	must(t, unix.Unmount(root, 0))
}
