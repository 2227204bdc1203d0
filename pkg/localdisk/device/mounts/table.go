// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mounts reads what is mounted on a node from the kernel's text files. It accesses no
// mount, so it never waits for a file system. Paths are those of the files' owner: with the
// mountinfo of the host's first process, paths are paths on the host.
//
// A Table is a snapshot. It is immutable, and safe for concurrent use.
package mounts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mount is one line of mountinfo, escapes decoded. A mount belongs to its Table,
// and is not to be changed.
type Mount struct {
	// ID is unique among the mounts of a moment, and is used again later. Parent is
	// the ID of the mount that this one is mounted on.
	ID, Parent int
	// Major and Minor are the file system's device number. File systems without a device, or
	// with several (btrfs, zfs, bcachefs), have major 0.
	Major, Minor uint32
	// Root is the path in the file system that is mounted, Point the mount point.
	Root, Point string
	FSType      string
	// Source is what the file system was mounted from: most often a device. It is freely chosen
	// at the mount.
	Source string
	// Options are those of the mount, SuperOptions those of the file system.
	Options, SuperOptions []string
}

// options splits a file system's options, which have escapes too.
func options(text string) []string {
	all := strings.Split(text, ",")
	for i := range all {
		all[i] = unescape(all[i])
	}
	return all
}

// ReadOnly reports whether nothing can be written through this mount.
func (m *Mount) ReadOnly() bool {
	return slices.Contains(m.Options, "ro") || slices.Contains(m.SuperOptions, "ro")
}

// Fault returns why the kernel has stopped writing to the file system of a mount after an
// error, such as "was shut down"; empty if it has not.
//
// A kernel without emergency_ro makes the superblock read-only, as does a mount with option
// ro. The first mount of the superblock distinguishes these: it keeps rw after an error. A
// later mount does not: kubelet makes a writable bind mount, for a second pod, of a volume
// that it has mounted read-only for the first.
func (t *Table) Fault(m *Mount) string {
	first := m
	if all := t.OfDevice(m.Major, m.Minor); len(all) > 0 {
		first = all[0]
	}
	super := first.SuperOptions
	switch {
	case slices.Contains(super, "shutdown"):
		return "was shut down"
	case slices.Contains(super, "emergency_ro"), slices.Contains(super, "ro") && !slices.Contains(first.Options, "ro"):
		return "was made read-only after an error"
	default:
		return ""
	}
}

// Table has the mounts of one mount namespace.
type Table struct {
	all  []*Mount
	byID map[int]*Mount
	// on has the mounts by the ID of the mount that they are mounted on, or noParent for those
	// whose parent is not visible.
	on map[int][]*Mount
}

// noParent is no mount's ID.
const noParent = -1

// Self is the mountinfo of this process.
const Self = "/proc/self/mountinfo"

// Read reads a mountinfo file, such as /proc/1/mountinfo for the host's mounts.
func Read(file string) (*Table, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close()
	t, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("read mounts from %s: %w", file, err)
	}
	return t, nil
}

func parse(r io.Reader) (*Table, error) {
	infos, err := mountinfo.GetMountsFromReader(r, nil)
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		// Every namespace has a root. A table without mounts would make each disk of the node
		// look unused.
		return nil, errors.New("it names no mount")
	}
	t := &Table{byID: make(map[int]*Mount, len(infos)), on: make(map[int][]*Mount)}
	for _, i := range infos {
		m := &Mount{
			ID: i.ID, Parent: i.Parent,
			Major: uint32(i.Major), Minor: uint32(i.Minor),
			Root: i.Root, Point: i.Mountpoint,
			FSType: i.FSType, Source: i.Source,
			Options:      strings.Split(i.Options, ","),
			SuperOptions: options(i.VFSOptions),
		}
		t.all, t.byID[m.ID] = append(t.all, m), m
	}
	for _, m := range t.all {
		parent := m.Parent
		if parent == m.ID || t.byID[parent] == nil {
			parent = noParent
		}
		t.on[parent] = append(t.on[parent], m)
	}
	return t, nil
}

// All returns the mounts in the file's order, hidden ones too. The slice is the caller's.
func (t *Table) All() []*Mount { return slices.Clone(t.all) }

// At returns the topmost mount at a path if it is a mount point. Mounts hidden by others are
// not found, and the path must not have symlinks.
func (t *Table) At(p string) (*Mount, bool) {
	m, ok := t.Over(p)
	if !ok || m.Point != path.Clean(p) {
		return nil, false
	}
	return m, true
}

// Over returns the mount of a path, which may be a mount at the path itself. The path is
// absolute and has no symlinks.
func (t *Table) Over(p string) (*Mount, bool) {
	p = path.Clean(p)
	var over *Mount
	// Like the kernel, start at the root and follow the mount at each mount point. There are at
	// most as many steps as mounts, since a damaged file may have cycles.
	at := noParent
	for range t.all {
		var next *Mount // of those on the way, that with the shortest mount point: it hides others
		for _, m := range t.on[at] {
			if Within(m.Point, p) && (next == nil || len(m.Point) <= len(next.Point)) {
				next = m
			}
		}
		if next == nil {
			break
		}
		over, at = next, next.ID
	}
	return over, over != nil
}

// OfDevice returns every mount of the file system with this device number, hidden ones too. File
// systems of several devices are not found by any of these: see Mount.
func (t *Table) OfDevice(major, minor uint32) []*Mount {
	return t.where(func(m *Mount) bool { return m.Major == major && m.Minor == minor })
}

// SameBytes returns every mount of the same folder of the same file system, m
// included, hidden ones too.
func (t *Table) SameBytes(m *Mount) []*Mount {
	return t.where(func(o *Mount) bool {
		return o.Major == m.Major && o.Minor == m.Minor && o.Root == m.Root
	})
}

// Location is the folder or file of a file system that something is mounted on. It is the same in
// all mount namespaces, at any path.
type Location struct {
	Major, Minor uint32
	// Path is the path within the file system.
	Path string
}

// MountedOn returns what a mount of this table is mounted on. There is none for the root, and for
// a mount whose parent is not visible.
func (t *Table) MountedOn(m *Mount) (Location, bool) {
	parent := t.byID[m.Parent]
	if parent == nil || parent == m {
		return Location{}, false
	}
	return Location{parent.Major, parent.Minor, parent.Inside(m.Point)}, true
}

// Inside returns the path within the mounted file system of a path on the mount.
func (m *Mount) Inside(p string) string {
	return path.Join(m.Root, strings.TrimPrefix(path.Clean(p), m.Point))
}

// Place is the disk.Fact.Place of a path on the mount.
func (m *Mount) Place(p string) string {
	return fmt.Sprintf("fs:%d:%d:%s", m.Major, m.Minor, m.Inside(p))
}

// Below returns every mount whose mount point is below a path, and not at it, including hidden
// ones.
func (t *Table) Below(p string) []*Mount {
	p = path.Clean(p)
	return t.where(func(m *Mount) bool { return m.Point != p && Within(p, m.Point) })
}

func (t *Table) where(fits func(*Mount) bool) []*Mount {
	var found []*Mount
	for _, m := range t.all {
		if fits(m) {
			found = append(found, m)
		}
	}
	return found
}

// Within reports whether a path is a folder or in it. Both are clean.
func Within(folder, p string) bool {
	rest, ok := strings.CutPrefix(p, folder)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(folder, "/"))
}

// local has the types of file systems that a volume can be made of: they are writable, and
// their bytes are on this node and belong to it alone. Others are never accessed: network and
// FUSE file systems, whose servers may not answer; autofs, which mounts on access; the
// kernel's own (proc, sysfs, cgroup, devtmpfs); overlays, whose bytes belong to other file
// systems; those shared by nodes (gfs2, ocfs2); and read-only ones.
var local = []string{
	"bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfsplus", "jfs", "nilfs2", "ntfs3", "ramfs", "reiserfs",
	"tmpfs", "vfat", "xfs", "zfs",
	"fuseblk", // FUSE on a local device (ntfs-3g). Its server may hang as any other.
}

// Supported reports whether a file system of this type (Mount.FSType) can be a volume. Check
// this before any access to the file system: one that is not supported may never answer.
func Supported(fsType string) bool {
	kind, _, _ := strings.Cut(fsType, ".") // type.subtype
	return slices.Contains(local, kind)
}

// Fstab returns the mount points of an fstab file. A missing file has none. Invalid lines are
// skipped, as by mount(8): one bad line must not hide the others.
func Fstab(file string) ([]string, error) {
	lines, err := fields(file)
	if err != nil {
		return nil, fmt.Errorf("read fstab: %w", err)
	}
	var points []string
	for _, f := range lines {
		if strings.HasPrefix(f[0], "#") || len(f) < 3 {
			continue
		}
		if point := unescape(f[1]); path.IsAbs(point) { // swap has "none"
			points = append(points, path.Clean(point))
		}
	}
	return points, nil
}

// Swaps returns the devices and files that are swap space in use, from a file such as
// /proc/swaps. A kernel without swap has no such file.
func Swaps(file string) ([]string, error) {
	lines, err := fields(file)
	if err != nil {
		return nil, fmt.Errorf("read swaps: %w", err)
	}
	var paths []string
	for _, f := range lines {
		if len(f) >= 2 && f[0] != "Filename" {
			paths = append(paths, unescape(f[0]))
		}
	}
	return paths, nil
}

// fields returns the words of each line that has any; nothing for a missing file.
func fields(file string) ([][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var lines [][]string
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, words)
		}
	}
	return lines, nil
}

var escaped = regexp.MustCompile(`\\[0-3][0-7]{2}`)

// unescape replaces \ooo by the byte, and leaves invalid escapes unchanged.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return escaped.ReplaceAllStringFunc(s, func(octal string) string {
		value, _ := strconv.ParseUint(octal[1:], 8, 8) // by its form no error
		return string([]byte{byte(value)})
	})
}
