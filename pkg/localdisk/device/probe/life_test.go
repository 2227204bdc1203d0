// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func one(t testing.TB, p *Prober, f disk.Folder, name string) disk.Fact {
	t.Helper()
	fact, ok := scan(t, p, disk.Scan{Folders: []disk.Folder{f}})[name]
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	return fact
}

func TestRemountedDisk(t *testing.T) {
	for fsType, size := range map[string]string{"ext4": "16M", "xfs": "300M", "btrfs": "128M", "tmpfs": ""} {
		t.Run(fsType, func(t *testing.T) {
			f := newFolder(t, "a")
			p := newProber(t)
			entry := filepath.Join(f.Path, "disk")
			again := func() { mount(t, entry, "-t", "tmpfs", "-o", "size=2M", "none") }
			wantAgain := disk.Different
			if fsType != "tmpfs" {
				needs(t, "mkfs."+fsType)
				device := attach(t, image(t, size))
				run(t, "mkfs."+fsType, "-q", device)
				again = func() { mount(t, entry, device) }
				wantAgain = disk.Same
			}
			again()
			first := one(t, p, f, "disk")
			if first.Kind != disk.Mount || first.FilesystemType != fsType || first.Problem != nil {
				t.Fatalf("%+v", first)
			}
			if seen := one(t, newProber(t), f, "disk"); seen.Identity != first.Identity || seen.Attachment != first.Attachment || seen.Attachment == "" {
				t.Fatalf("seen again it is %s (%s), was %s (%s)", seen.Identity, seen.Attachment, first.Identity, first.Attachment)
			}
			unmount(t, entry)
			if gone := one(t, p, f, "disk"); reason(gone) != disk.NotMountPoint {
				t.Fatalf("unmounted: %+v", gone)
			}
			again()
			second := one(t, p, f, "disk")
			if got := first.Identity.Compare(second.Identity); got != wantAgain {
				t.Errorf("remounted: %s, want %s", got, wantAgain)
			}
			if second.Attachment == first.Attachment || second.Attachment == "" {
				t.Errorf("remounted: attachment %q, was %q", second.Attachment, first.Attachment)
			}
			unmount(t, entry)
			mount(t, entry, newFileSystem(t))
			other := one(t, p, f, "disk")
			if got := first.Identity.Compare(other.Identity); got != disk.Different {
				t.Errorf("another disk in its place: %s, then %s: %s", first.Identity, other.Identity, got)
			}
		})
	}
}

func TestBtrfsPoolOverlapsItsDevices(t *testing.T) {
	needs(t, "mkfs.btrfs")
	f := newFolder(t, "a")
	device := attach(t, image(t, "128M"))
	run(t, "mkfs.btrfs", "-q", device)
	mount(t, filepath.Join(f.Path, "pool"), device)
	link(t, device, f.Path, "raw")
	facts := scan(t, newProber(t), disk.Scan{Folders: []disk.Folder{f}})
	if reason(facts["pool"]) != "" || reason(facts["raw"]) != disk.InUse {
		t.Errorf("%+v", facts)
	}
	if !strings.Contains(strings.Join(facts["pool"].Overlaps, " "), facts["raw"].Place) {
		t.Errorf("the pool on %s overlaps %v", facts["raw"].Place, facts["pool"].Overlaps)
	}
}

func TestGrownDisk(t *testing.T) {
	f := newFolder(t, "a")
	p := newProber(t)
	file := image(t, "16M")
	device := attach(t, file)
	link(t, device, f.Path, "disk")
	before := one(t, p, f, "disk")
	run(t, "truncate", "-s", "32M", file)
	run(t, "losetup", "-c", device)
	after := one(t, p, f, "disk")
	if before.Bytes != 16<<20 || after.Bytes != 32<<20 {
		t.Errorf("%d bytes, then %d", before.Bytes, after.Bytes)
	}
	if after.Problem != nil || after.Place != before.Place {
		t.Errorf("%+v", after)
	}
}

func TestReattachedDevice(t *testing.T) {
	f := newFolder(t, "a")
	file := image(t, "16M")
	device := attach(t, file)
	link(t, device, f.Path, "disk")
	p := newProber(t)
	first := one(t, p, f, "disk")
	if seen := one(t, p, f, "disk"); seen.Attachment != first.Attachment || seen.Attachment == "" {
		t.Errorf("attachment %q, was %q", seen.Attachment, first.Attachment)
	}
	detach(t, device, file)
	must(t, os.Remove(filepath.Join(f.Path, "disk")))
	link(t, attach(t, file), f.Path, "disk")
	if second := one(t, p, f, "disk"); second.Attachment == first.Attachment || second.Attachment == "" {
		t.Errorf("attached again: attachment %q, was %q", second.Attachment, first.Attachment)
	}
}

func TestRetargetedLink(t *testing.T) {
	f := newFolder(t, "a")
	p := newProber(t)
	entry := filepath.Join(f.Path, "disk")
	link(t, newDisk(t), entry)
	before := one(t, p, f, "disk")
	must(t, os.Remove(entry))
	link(t, newDisk(t), entry)
	if after := one(t, p, f, "disk"); before.Identity.Compare(after.Identity) != disk.Different {
		t.Errorf("%s, then %s", before.Identity, after.Identity)
	}
}

func TestSamePlace(t *testing.T) {
	a, b := newFolder(t, "a"), newFolder(t, "b")
	device := newFileSystem(t)
	link(t, device, a.Path, "dev2")
	p := newProber(t)
	tests := []struct {
		name string
		make func()
		// known has the slots with a volume.
		known []disk.Key
		want  map[disk.Key]disk.Reason
	}{
		{
			name: "two links to one device: the first class wins",
			make: func() { link(t, device, b.Path, "dev1") },
			want: map[disk.Key]disk.Reason{{Class: "a", Name: "dev2"}: "", {Class: "b", Name: "dev1"}: disk.SameBytes},
		},
		{
			name:  "one of them has a volume: it wins",
			make:  func() {},
			known: []disk.Key{{Class: "b", Name: "dev1"}},
			want:  map[disk.Key]disk.Reason{{Class: "a", Name: "dev2"}: disk.SameBytes, {Class: "b", Name: "dev1"}: ""},
		},
		{
			name: "the device is mounted in the other class: the device is in use",
			make: func() {
				must(t, os.Remove(filepath.Join(b.Path, "dev1")))
				mount(t, filepath.Join(b.Path, "mnt"), device)
			},
			want: map[disk.Key]disk.Reason{{Class: "a", Name: "dev2"}: disk.InUse, {Class: "b", Name: "mnt"}: ""},
		},
		{
			name: "folders of one file system, mounted one by one, are apart",
			make: func() {
				must(t, os.Remove(filepath.Join(a.Path, "dev2")))
				root := filepath.Join(b.Path, "mnt")
				must(t, os.Mkdir(filepath.Join(root, "one"), 0o755))
				must(t, os.Mkdir(filepath.Join(root, "one two"), 0o755))
				mount(t, filepath.Join(a.Path, "one"), "--bind", filepath.Join(root, "one"))
				mount(t, filepath.Join(a.Path, "two"), "--bind", filepath.Join(root, "one two"))
				unmount(t, root)
				must(t, os.Remove(root))
			},
			want: map[disk.Key]disk.Reason{{Class: "a", Name: "one"}: "", {Class: "a", Name: "two"}: ""},
		},
		{
			name: "the same folder, mounted twice",
			make: func() { mount(t, filepath.Join(b.Path, "one"), "--bind", filepath.Join(a.Path, "one")) },
			want: map[disk.Key]disk.Reason{
				{Class: "a", Name: "one"}: "", {Class: "a", Name: "two"}: "", {Class: "b", Name: "one"}: disk.SameBytes,
			},
		},
		{
			name: "and the whole file system beside its folders",
			make: func() {
				unmount(t, filepath.Join(b.Path, "one"))
				must(t, os.Remove(filepath.Join(b.Path, "one")))
				mount(t, filepath.Join(b.Path, "all"), device)
			},
			want: map[disk.Key]disk.Reason{
				{Class: "a", Name: "one"}: "", {Class: "a", Name: "two"}: "", {Class: "b", Name: "all"}: disk.InUse,
			},
		},
	}
	for _, s := range tests { // each continues where the previous one ended
		s.make()
		ask := disk.Scan{Folders: []disk.Folder{a, b}}
		for _, key := range s.known {
			ask.Known = append(ask.Known, disk.Known{Key: key, Volume: "v", Kind: disk.Device})
		}
		got := p.Scan(t.Context(), ask)
		for key, want := range s.want {
			if f, ok := got.Facts[key]; !ok || reason(f) != want {
				t.Errorf("%s: %s: %q, want %q: %v", s.name, key, reason(f), want, f.Problem)
			}
		}
		if len(got.Facts) != len(s.want) {
			t.Errorf("%s: %d facts, want %d", s.name, len(got.Facts), len(s.want))
		}
	}
}

func TestDiskAndItsPartitions(t *testing.T) {
	needs(t, "partx", "sgdisk")
	f := newFolder(t, "a")
	file := image(t, "16M")
	run(t, "sgdisk", "-n", "1:2048:8191", "-n", "2:8192:16383", file)
	device := attach(t, file)
	if out, err := exec.Command("partx", "-a", device).CombinedOutput(); err != nil {
		t.Skipf("the kernel has no partitions on loop devices: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("partx", "-d", device).Run() })
	link(t, device+"p1", f.Path, "one")
	link(t, device+"p2", f.Path, "two")
	p := newProber(t)
	facts := scan(t, p, disk.Scan{Folders: []disk.Folder{f}})
	for name, start := range map[string]string{"one": "1048576", "two": "4194304"} {
		id := string(facts[name].Identity)
		if facts[name].Problem != nil || !strings.HasPrefix(id, "weakpart:") || !strings.HasSuffix(id, ":"+start) {
			t.Errorf("%s: %+v", name, facts[name])
		}
	}

	link(t, device, f.Path, "whole")
	facts = scan(t, p, disk.Scan{Folders: []disk.Folder{f}})
	if reason(facts["whole"]) != disk.InUse || facts["one"].Problem != nil || facts["two"].Problem != nil {
		t.Errorf("with the whole disk beside them: %+v", facts)
	}
	facts = scan(t, p, disk.Scan{
		Folders: []disk.Folder{f},
		Known:   []disk.Known{{Key: disk.Key{Class: "a", Name: "whole"}, Volume: "v", Kind: disk.Device}},
	})
	if facts["whole"].Problem != nil || reason(facts["one"]) != disk.InUse || reason(facts["two"]) != disk.InUse {
		t.Errorf("with a volume on the whole disk: %+v", facts)
	}
}

func TestDirectoryAndItsMount(t *testing.T) {
	f := newFolder(t, "a")
	f.Directories = []string{"dir*"}
	entry := func(name string) string { return filepath.Join(f.Path, name) }
	must(t, os.Mkdir(entry("dir1"), 0o755))
	must(t, os.Mkdir(entry("dir2"), 0o755))
	mount(t, entry("bound"), "--bind", entry("dir1"))
	facts := scan(t, newProber(t), disk.Scan{Folders: []disk.Folder{f}})
	if facts["bound"].Problem != nil || facts["dir2"].Problem != nil || reason(facts["dir1"]) != disk.SameBytes {
		t.Errorf("%+v", facts)
	}
	if facts["dir2"].Identity == facts["bound"].Identity || facts["dir2"].FilesystemType != "tmpfs" {
		t.Errorf("%+v", facts)
	}
}

// opens counts how often a folder is opened.
func opens(t *testing.T, folder string, do func()) int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, folder, unix.IN_OPEN|unix.IN_ONLYDIR)
	must(t, err)
	do()
	buf := make([]byte, 4096)
	n, err := unix.Read(fd, buf)
	if err == unix.EAGAIN {
		return 0
	}
	must(t, err)
	return n / unix.SizeofInotifyEvent
}

func TestRescanDoesNoIO(t *testing.T) {
	f := newFolder(t, "a")
	mounted, raw := newFileSystem(t), newDisk(t)
	// Otherwise a thread of ext4 reads block bitmaps and writes inode tables later.
	mount(t, filepath.Join(f.Path, "mounted"), "-o", "no_prefetch_block_bitmaps,noinit_itable", mounted)
	link(t, raw, f.Path, "raw")
	p := newProber(t)
	ask := disk.Scan{Folders: []disk.Folder{f}}
	first := scan(t, p, ask)
	run(t, "sync", "-f", filepath.Join(f.Path, "mounted"))

	// Reads and writes, in requests and sectors. Threads of the file system still write its
	// journal, so only reads are compared there.
	stat := func() (string, string) {
		fields := func(device string) []string {
			b, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "stat"))
			must(t, err)
			return strings.Fields(string(b))
		}
		return strings.Join(fields(raw), " "), strings.Join(fields(mounted)[:4], " ")
	}
	rawBefore, mountedBefore := stat()
	opened := opens(t, filepath.Join(f.Path, "mounted"), func() {
		for range 20 {
			if again := scan(t, p, ask); again["mounted"].Identity != first["mounted"].Identity {
				t.Fatalf("%+v", again)
			}
		}
	})
	if opened != 0 && mountsAreNumbered(t, f.Path) {
		t.Errorf("the file system was opened %d times", opened)
	}
	if r, m := stat(); r != rawBefore || m != mountedBefore {
		t.Errorf("device: %s, then %s\nmounted: %s, then %s", rawBefore, r, mountedBefore, m)
	}
	if got := opens(t, filepath.Join(f.Path, "mounted"), func() {
		if id, err := p.Identify(t.Context(), first["mounted"]); err != nil || id != first["mounted"].Identity {
			t.Errorf("%s, %v", id, err)
		}
	}); got != 1 {
		t.Errorf("before something is destroyed, the file system was accessed %d times, want once", got)
	}
}

func mountsAreNumbered(t *testing.T, path string) bool {
	t.Helper()
	s, err := inodeAt(path)
	must(t, err)
	return s.unique
}

func TestUnmountedDuringExamination(t *testing.T) {
	f := newFolder(t, "a")
	entry := filepath.Join(f.Path, "disk")
	mount(t, entry, "-t", "tmpfs", "-o", "size=1M", "none")
	p := newProber(t)
	p.statfs = func(path string, st *unix.Statfs_t) error {
		_ = unix.Unmount(path, 0)
		return unix.Statfs(path, st)
	}
	if got := one(t, p, f, "disk"); reason(got) != disk.Unreadable || got.Identity != "" {
		t.Errorf("%+v: its size would be that of what is beneath", got)
	}
}

func TestKubeletUsesTheVolume(t *testing.T) {
	f := newFolder(t, "a")
	device := newFileSystem(t)
	link(t, device, f.Path, "disk")
	kubelet := newFolder(t, "kubelet").Path
	mount(t, filepath.Join(kubelet, "plugins/kubernetes.io/local-volume/mounts/pv-1"), device)
	p := newProber(t, func(c *Config) {
		c.Usage = finderFor(t, kubelet)
	})
	for volume, want := range map[string]disk.Reason{"pv-1": "", "pv-2": disk.InUse, "": disk.InUse} {
		facts := scan(t, p, disk.Scan{
			Folders: []disk.Folder{f},
			Known:   []disk.Known{{Key: disk.Key{Class: "a", Name: "disk"}, Kind: disk.Device, Volume: volume}},
		})
		if got := reason(facts["disk"]); got != want {
			t.Errorf("with volume %q: %v, want %q", volume, facts["disk"].Problem, want)
		}
	}
}
