// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package mounts

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// node is the mountinfo of a node with the difficult cases: a stack, a hidden mount, bind
// mounts, escapes, a root whose parent is not visible.
const node = `
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /proc rw - proc proc rw
30 22 8:16 / /mnt/disks/a rw,noatime shared:2 - xfs /dev/sdb rw,attr2
31 22 8:16 / /var/lib/kubelet/pods/1/volumes/v rw master:2 - xfs /dev/sdb rw
32 22 8:16 /dir /mnt/disks/part rw - xfs /dev/sdb rw
33 22 8:32 / /mnt/stack rw - ext4 /dev/sdc rw
34 33 8:48 / /mnt/stack rw - ext4 /dev/sdd ro
35 22 8:64 / /mnt/hidden rw - ext4 /dev/sde rw
36 35 8:80 / /mnt/hidden/deep rw - ext4 /dev/sdf rw
37 35 0:40 / /mnt/hidden rw - tmpfs none rw
38 22 8:96 / /mnt/disks/a\040b\134c rw - ext4 /dev/sdg rw
39 22 0:50 / /mnt/share rw - fuse.sshfs me@host:/a\040b rw
40 22 8:112 / /mnt/disks/ro ro - ext4 /dev/sdh rw
`

func table(t *testing.T, text string) *Table {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(file, []byte(strings.TrimLeft(text, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	tab, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestPaths(t *testing.T) {
	// want is the ID of the mount, 0 for none.
	cases := map[string]struct {
		path     string
		at, over int
	}{
		"a mount point":                                    {"/mnt/disks/a", 30, 30},
		"a path that is not clean":                         {"/mnt//disks/a/", 30, 30},
		"something in a mount":                             {"/mnt/disks/a/x/y", 0, 30},
		"a name that begins with a mount point's":          {"/mnt/disks/ab", 0, 22},
		"the root":                                         {"/", 22, 22},
		"of a stack, the topmost":                          {"/mnt/stack", 34, 34},
		"in a stack, the topmost":                          {"/mnt/stack/x", 0, 34},
		"a mount on a mount that hides its neighbours":     {"/mnt/hidden", 37, 37},
		"a hidden mount point":                             {"/mnt/hidden/deep", 0, 37},
		"a mount point with a space and a backslash in it": {`/mnt/disks/a b\c`, 38, 38},
		"a relative path":                                  {"mnt/disks/a", 0, 0},
	}
	tab := table(t, node)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			at, _ := tab.At(c.path)
			over, _ := tab.Over(c.path)
			got := []int{ids(at)[0], ids(over)[0]}
			if diff := cmp.Diff([]int{c.at, c.over}, got); diff != "" {
				t.Errorf("at, over (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQueries(t *testing.T) {
	tab := table(t, node)
	a, _ := tab.At("/mnt/disks/a")
	part, _ := tab.At("/mnt/disks/part")
	cases := map[string]struct {
		got  []*Mount
		want []int
	}{
		"of a device, all mounts":                         {tab.OfDevice(8, 16), []int{30, 31, 32}},
		"of a device, hidden mounts too":                  {tab.OfDevice(8, 80), []int{36}},
		"of a device that is not mounted, none":           {tab.OfDevice(8, 17), nil},
		"the same bytes, where they are a whole device":   {tab.SameBytes(a), []int{30, 31}},
		"the same bytes, where they are a folder of it":   {tab.SameBytes(part), []int{32}},
		"below a folder, not the folder itself":           {tab.Below("/mnt/hidden"), []int{36}},
		"below a folder, not below one of a similar name": {tab.Below("/mnt/disks/a"), nil},
		"below the root":                                  {tab.Below("/proc/.."), []int{23, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if len(c.want) == 0 && len(c.got) == 0 {
				return
			}
			if diff := cmp.Diff(c.want, ids(c.got...)); diff != "" {
				t.Errorf("IDs (-want +got):\n%s", diff)
			}
		})
	}
}

func ids(ms ...*Mount) []int {
	var out []int
	for _, m := range ms {
		if m == nil {
			out = append(out, 0)
		} else {
			out = append(out, m.ID)
		}
	}
	return out
}

func TestMountFields(t *testing.T) {
	got, _ := table(t, node).At("/mnt/disks/a")
	want := &Mount{
		ID: 30, Parent: 22, Major: 8, Minor: 16, Root: "/", Point: "/mnt/disks/a", FSType: "xfs", Source: "/dev/sdb",
		Options: []string{"rw", "noatime"}, SuperOptions: []string{"rw", "attr2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mount (-want +got):\n%s", diff)
	}
}

func TestMountedOn(t *testing.T) {
	host := table(t, `
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 8:16 / /var/mnt/disks/a rw - ext4 /dev/sdb rw
24 23 8:32 / /var/mnt/disks/a rw - ext4 /dev/sdc rw
`)
	// The same in a container, to which the discovery directory has another path.
	container := table(t, `
40 39 0:60 / / rw - overlay overlay rw
41 40 8:1 /var/mnt/disks /mnt/disks rw - ext4 /dev/sda1 rw
42 41 8:16 / /mnt/disks/a rw - ext4 /dev/sdb rw
`)
	want := Location{Major: 8, Minor: 1, Path: "/var/mnt/disks/a"}
	first, stacked := host.OfDevice(8, 16)[0], host.OfDevice(8, 32)[0]
	if got, ok := host.MountedOn(first); got != want || !ok {
		t.Errorf("on the host the location is %v, %v; want %v", got, ok, want)
	}
	if got, ok := container.MountedOn(container.OfDevice(8, 16)[0]); got != want || !ok {
		t.Errorf("in the container the location is %v, %v; want %v", got, ok, want)
	}
	if got, ok := host.MountedOn(stacked); got != (Location{Major: 8, Minor: 16, Path: "/"}) || !ok {
		t.Errorf("of a mount on a mount the location is %v, %v", got, ok)
	}
	if got, ok := host.MountedOn(host.OfDevice(8, 1)[0]); ok {
		t.Errorf("the root has the location %v", got)
	}
}

func TestReadOnly(t *testing.T) {
	tab := table(t, node)
	for path, want := range map[string]bool{"/mnt/disks/a": false, "/mnt/disks/ro": true, "/mnt/stack": true} {
		if m, _ := tab.At(path); m.ReadOnly() != want {
			t.Errorf("%s: read-only %v, want %v", path, m.ReadOnly(), want)
		}
	}
}

func TestTableOfAnotherRoot(t *testing.T) {
	// A process in a container: the parent of its root is not visible, nor is the root itself
	// for one in a plain folder.
	tab := table(t, `
50 49 8:16 / /disks/a rw - ext4 /dev/sdb rw
51 50 8:32 / /disks/a/b rw - ext4 /dev/sdc rw
60 60 8:48 / /own rw - ext4 /dev/sdd rw
`)
	got := map[string]int{}
	for _, p := range []string{"/disks/a/b/x", "/disks/a", "/own/x", "/etc"} {
		m, _ := tab.Over(p)
		got[p] = ids(m)[0]
	}
	if diff := cmp.Diff(map[string]int{"/disks/a/b/x": 51, "/disks/a": 50, "/own/x": 60, "/etc": 0}, got); diff != "" {
		t.Errorf("over (-want +got):\n%s", diff)
	}
}

func TestInvalidTable(t *testing.T) {
	cases := map[string]string{
		"empty: no namespace has no mounts": "",
		"a line that is cut off":            "22 1 8:1 / / rw,relatime",
		"no separator":                      "22 1 8:1 / / rw a b c d e",
		"device":                            "22 1 8 / / rw - ext4 /dev/sda1 rw",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(strings.NewReader(text)); err == nil {
				t.Error("read without an error")
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error of a file that is not there is %v", err)
	}
}

func FuzzTable(f *testing.F) {
	f.Add(node, "/mnt/hidden/deep")
	f.Add("1 2 8:1 / /a rw - x y z\n2 1 8:1 / /a rw - x y z\n", "/a")
	f.Fuzz(func(t *testing.T, text, p string) {
		tab, err := parse(strings.NewReader(strings.TrimLeft(text, "\n")))
		if err != nil {
			return
		}
		over, ok := tab.Over(p)
		if ok && !Within(filepath.Clean(over.Point), filepath.Clean(p)) && over.Point != "" {
			t.Errorf("%q is not over %q", over.Point, p)
		}
		if at, ok := tab.At(p); ok && at != over {
			t.Errorf("the mount at %q is not the one over it", p)
		}
	})
}

func TestFault(t *testing.T) {
	const root = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
	for name, c := range map[string]struct {
		mounts, at, want string
	}{
		"a sound file system":                   {"30 22 8:16 / /a rw - xfs /dev/sdb rw", "/a", ""},
		"ext4 after an error":                   {"30 22 8:16 / /a rw - ext4 /dev/sdb rw,errors=remount-ro,emergency_ro", "/a", "was made read-only after an error"},
		"ext4 after an error, as before":        {"30 22 8:16 / /a rw - ext4 /dev/sdb ro,errors=remount-ro", "/a", "was made read-only after an error"},
		"only an option of that name":           {"30 22 8:16 / /a rw,errors=remount-ro - ext4 /dev/sdb rw,errors=remount-ro", "/a", ""},
		"ext4 that was shut down":               {"30 22 8:16 / /a rw - ext4 /dev/sdb rw,shutdown", "/a", "was shut down"},
		"mounted read-only":                     {"30 22 8:16 / /a ro - ext4 /dev/sdb ro", "/a", ""},
		"a claim that is mounted read-only":     {"30 22 8:16 / /a rw - ext4 /dev/sdb rw\n31 22 8:16 / /pod ro - ext4 /dev/sdb rw", "/a", ""},
		"the error of such a claim":             {"30 22 8:16 / /a rw - ext4 /dev/sdb ro\n31 22 8:16 / /pod ro - ext4 /dev/sdb ro", "/pod", "was made read-only after an error"},
		"a writable pod, after a read-only one": {"30 22 8:16 / /global ro - ext4 /dev/sdb ro\n31 22 8:16 / /pod rw - ext4 /dev/sdb ro", "/pod", ""},
		"btrfs, which has no device":            {"30 22 0:40 /sub /a rw - btrfs /dev/sdb ro,subvol=/sub", "/a", "was made read-only after an error"},
	} {
		t.Run(name, func(t *testing.T) {
			tab := table(t, root+c.mounts+"\n")
			m, ok := tab.At(c.at)
			if !ok {
				t.Fatalf("nothing is mounted at %s", c.at)
			}
			if got := tab.Fault(m); got != c.want {
				t.Errorf("fault %q, want %q", got, c.want)
			}
		})
	}
}

func TestSupported(t *testing.T) {
	for _, fsType := range []string{
		"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat", "exfat", "ntfs3", "zfs", "bcachefs", "jfs", "nilfs2",
		"tmpfs", "ramfs", "hfsplus", "fuseblk", "fuseblk.ntfs-3g",
	} {
		if !Supported(fsType) {
			t.Errorf("%s is not supported", fsType)
		}
	}
	for _, fsType := range []string{
		"", "autofs", "overlay", "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "hugetlbfs",
		"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "lustre", "gfs2", "ocfs2",
		"fuse", "fuse.sshfs", "fuse.xfs", "fuse.glusterfs", "squashfs", "iso9660", "erofs", "something.new",
	} {
		if Supported(fsType) {
			t.Errorf("%s is supported", fsType)
		}
	}
}
