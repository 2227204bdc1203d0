// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// The values of disk.User.What.
const (
	byMount   = "mount"
	byKubelet = "kubelet"
	byLoop    = "loop device"
	bySwap    = "swap"
	byHolder  = "holder"
)

// use is a user, and what determines whose it is.
type use struct {
	disk.User
	// path is the mount point, or what a loop device is attached to.
	path string
	// node reports whether it is a mount of a device's node.
	node bool
	// at is where a use of Survey.pathUses leads to, loop the loop device if it is one.
	at   spot
	loop *device
}

// usesOfDevice returns what uses a device itself, and not a part of it or what it is a part of.
func (s *Survey) usesOfDevice(d *device) []use {
	uses := s.otherUses(d)
	for _, m := range s.mounted[d] {
		uses = append(uses, use{User: disk.User{What: byMount, Where: m.Point}, path: m.Point, node: isNode(m)})
	}
	return uses
}

// otherUses returns what uses a device other than by mounting it.
func (s *Survey) otherUses(d *device) []use {
	var uses []use
	for _, h := range d.holders {
		uses = append(uses, use{User: disk.User{What: byHolder, Where: h.path()}})
	}
	for _, u := range s.pathUses {
		if u.at.device == d {
			uses = append(uses, u)
		}
	}
	return uses
}

// usesOfOverlap returns what uses bytes of a device: the device itself, parts of it, and what
// it is a part of. The holders that lead from its disks to the device are part of it, and do
// not use it.
func (s *Survey) usesOfOverlap(d *device) []use {
	uses := s.usesOfDevice(d)
	for _, o := range d.above() {
		uses = append(uses, s.usesOfDevice(o)...)
	}
	chain := append(d.below(), d)
	for _, o := range d.below() {
		for _, u := range s.usesOfDevice(o) {
			if !leadsTo(o, u, chain) {
				uses = append(uses, u)
			}
		}
	}
	return uses
}

// leadsTo reports whether a use of o is part of the chain, or a neighbour of it: a device-mapper
// or loop device of the chain, or another holder of a device that one of the chain divides (the
// other logical volumes of a group).
func leadsTo(o *device, u use, chain []*device) bool {
	switch u.What {
	case byHolder:
		return slices.ContainsFunc(o.holders, func(h *device) bool { return slices.Contains(chain, h) })
	case byLoop:
		return slices.Contains(chain, u.loop)
	default:
		return false
	}
}

// otherMounts returns the mounts of the target's bytes, or of a folder of them, except those
// at the fact's own paths.
func (s *Survey) otherMounts(t target, own []string) []use {
	var uses []use
	for _, m := range s.table.OfDevice(t.fs.major, t.fs.minor) {
		if mounts.Within(t.root, m.Root) && !slices.Contains(own, m.Point) {
			uses = append(uses, use{User: disk.User{What: byMount, Where: m.Point}, path: m.Point})
		}
	}
	return uses
}

// withoutEntry removes mounts of a device's node on the fact's own paths: these are the entry
// itself.
func withoutEntry(own []string, uses []use) []use {
	return slices.DeleteFunc(uses, func(u use) bool { return u.node && slices.Contains(own, u.path) })
}

// filesWithin returns what uses files of the target: loop devices, swap and overlays.
func (s *Survey) filesWithin(t target) []use {
	var uses []use
	for _, u := range s.pathUses {
		if u.at.device == nil && u.at.known && u.at.fs == t.fs && mounts.Within(t.root, u.at.file) {
			uses = append(uses, u)
		}
	}
	return uses
}

// system has the folders that every node needs.
var system = []string{"/", "/boot", "/boot/efi", "/etc", "/usr", "/var"}

// systemOn returns which mounts or folders of the system, of kubelet and of the discovery
// directories are among the target's bytes: for a folder of a file system what is in it, for a
// device what is on any of its disks. It names the mounts, or the folders of mounts that are
// only partly in the target.
func (s *Survey) systemOn(t target) []use {
	var uses []use
	for _, p := range slices.Concat(system, []string{s.kubelet}, s.folders) {
		m, ok := s.table.Over(p)
		if !ok {
			continue
		}
		where := ""
		at := s.locate(p)
		switch {
		case t.device != nil:
			bottom := t.device.disks()
			onDisk := func(d *device) bool { return slices.Contains(bottom, d) }
			if slices.ContainsFunc(s.holds(m), func(d *device) bool { return slices.ContainsFunc(d.disks(), onDisk) }) {
				where = m.Point
			}
		case at.fs != t.fs:
		case mounts.Within(t.root, m.Root):
			where = m.Point
		case mounts.Within(t.root, at.file):
			where = p
		}
		if where != "" {
			uses = append(uses, use{User: disk.User{What: byMount, Where: where}, path: where})
		}
	}
	return uses
}

// users returns the users of uses, each once, in order.
func users(uses []use) []disk.User {
	var found []disk.User
	for _, u := range uses {
		found = append(found, u.User)
	}
	slices.SortFunc(found, func(a, b disk.User) int { return cmp.Or(cmp.Compare(a.What, b.What), cmp.Compare(a.Where, b.Where)) })
	return slices.Compact(found)
}

// BlockingUsers returns the uses on the node that prevent a fact's disk from being offered as a
// volume. volume is the name of its volume, if there is one: kubelet's use of that does not
// count.
//
// A device is claimed by what uses it, a part of it, or what it is a part of, and by what the
// host uses of the rest of its disk. Uses of that rest by other volumes, which are mounts in
// the discovery directories and in kubelet's folder, do not count. A file system is claimed by
// other mounts of it outside of the discovery directories, by other uses of its device, by the
// system's own folders if they are in it, and, if there is no volume, by what uses its files.
func (s *Survey) BlockingUsers(fact disk.Fact, volume string) ([]disk.User, error) {
	t, err := s.target(fact.Place)
	if err != nil {
		return nil, fmt.Errorf("find what of the node uses %s: %w", fact.HostPath, err)
	}
	uses := s.systemOn(t)
	if t.device != nil {
		uses = append(uses, withoutEntry([]string{path.Clean(fact.HostPath)}, s.usesOfOverlap(t.device))...)
		uses = append(uses, s.usesBeside(t.device)...)
	} else {
		uses = append(uses, s.usesOfFiles(t, fact.HostPath, volume)...)
	}
	uses = slices.DeleteFunc(uses, func(u use) bool { return own(volume, u.path) })
	return users(uses), nil
}

// usesBeside returns what the host uses of the rest of a device's disks.
func (s *Survey) usesBeside(d *device) []use {
	var uses []use
	for _, o := range d.neighbours() {
		for _, u := range s.usesOfDevice(o) {
			switch {
			case s.byVolume(u):
			case u.What == byHolder && o.whole:
				// Volume managers hold their own devices; the use at the end of the chain counts.
			default:
				uses = append(uses, u)
			}
		}
	}
	return uses
}

// byVolume reports whether a use is one of those that volumes have.
func (s *Survey) byVolume(u use) bool {
	if u.path == "" {
		return false
	}
	return s.discovered(u.path) || mounts.Within(disk.MountFolder, u.path) ||
		slices.ContainsFunc(kubeletPlaces, func(place string) bool { return containsPath(u.path, place) }) ||
		mounts.Within(path.Join(s.kubelet, "pods"), u.path) || mounts.Within(path.Join(s.kubelet, "plugins"), u.path)
}

// discovered reports whether a path is in a discovery directory, and is not one.
func (s *Survey) discovered(p string) bool {
	return slices.ContainsFunc(s.folders, func(f string) bool { return p != f && mounts.Within(f, p) })
}

// usesOfFiles returns what claims a folder of a file system.
func (s *Survey) usesOfFiles(t target, hostPath, volume string) []use {
	uses := slices.DeleteFunc(s.otherMounts(t, []string{path.Clean(hostPath)}), func(u use) bool { return s.discovered(u.path) })
	for _, d := range s.devicesOf(t) {
		uses = append(uses, s.otherUses(d)...)
	}
	if volume == "" {
		uses = append(uses, s.filesWithin(t)...)
	}
	return uses
}
