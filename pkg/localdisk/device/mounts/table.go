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
	"os"
	"path"
	"slices"
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
	return m.readOnly() || slices.Contains(m.SuperOptions, "ro")
}

// readOnly reports whether the mount itself is read-only, regardless of its file system.
func (m *Mount) readOnly() bool { return slices.Contains(m.Options, "ro") }

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
	case slices.Contains(super, "emergency_ro"), slices.Contains(super, "ro") && !first.readOnly():
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
		t.all = append(t.all, &Mount{
			ID: i.ID, Parent: i.Parent,
			Major: uint32(i.Major), Minor: uint32(i.Minor),
			Root: i.Root, Point: i.Mountpoint,
			FSType: i.FSType, Source: i.Source,
			Options:      strings.Split(i.Options, ","),
			SuperOptions: options(i.VFSOptions),
		})
	}
	for _, m := range t.all {
		t.byID[m.ID] = m
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

// All returns the mounts in the file's order, hidden ones too. The slice is the
// caller's.
func (t *Table) All() []*Mount { return t.where(func(*Mount) bool { return true }) }

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
		next := t.entered(at, p)
		if next == nil {
			break
		}
		over, at = next, next.ID
	}
	return over, over != nil
}

// entered returns the first mount on the way to a path that is mounted on a given one: that
// with the shortest mount point, since it hides others.
func (t *Table) entered(on int, p string) *Mount {
	var first *Mount
	for _, m := range t.on[on] {
		if !Within(m.Point, p) {
			continue
		}
		if first == nil || len(m.Point) <= len(first.Point) {
			first = m
		}
	}
	return first
}

// OfDevice returns every mount of the file system with this device number, hidden
// ones too. File systems of several devices are not found by any of these: see
// Mount.
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
var local = map[string]bool{
	"bcachefs": true,
	"btrfs":    true,
	"exfat":    true,
	"ext2":     true,
	"ext3":     true,
	"ext4":     true,
	"f2fs":     true,
	"hfsplus":  true,
	"jfs":      true,
	"nilfs2":   true,
	"ntfs3":    true,
	"ramfs":    true,
	"reiserfs": true,
	"tmpfs":    true,
	"vfat":     true,
	"xfs":      true,
	"zfs":      true,
	// FUSE on a local device (ntfs-3g). Its server may hang as any other.
	"fuseblk": true,
}

// Supported reports whether a file system of this type (Mount.FSType) can be a volume. Check
// this before any access to the file system: one that is not supported may never answer.
func Supported(fsType string) bool {
	kind, _, _ := strings.Cut(fsType, ".") // type.subtype
	return local[kind]
}
