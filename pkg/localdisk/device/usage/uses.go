// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
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
}

// usesOfDevice returns what uses a device itself, and not a part of it or what it is
// a part of.
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
	for _, l := range s.loops {
		if l.at.device == d {
			uses = append(uses, use{User: disk.User{What: byLoop, Where: l.device.path()}, path: l.device.backing})
		}
	}
	for _, sw := range s.swaps {
		if sw.at.device == d {
			uses = append(uses, use{User: disk.User{What: bySwap, Where: sw.path}})
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
		return slices.ContainsFunc(chain, func(d *device) bool { return d.path() == u.Where })
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
	within := func(at spot) bool {
		return at.device == nil && at.known && at.fs == t.fs && mounts.Within(t.root, at.file)
	}
	for _, l := range s.loops {
		if within(l.at) {
			uses = append(uses, use{User: disk.User{What: byLoop, Where: l.device.path()}, path: l.device.backing})
		}
	}
	for _, sw := range s.swaps {
		if within(sw.at) {
			uses = append(uses, use{User: disk.User{What: bySwap, Where: sw.path}})
		}
	}
	for _, l := range s.layers {
		if within(l.at) {
			uses = append(uses, use{User: disk.User{What: byMount, Where: l.point}, path: l.point})
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
			if slices.ContainsFunc(s.holds(m), func(d *device) bool { return shareDisk(d, t.device) }) {
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

func shareDisk(a, b *device) bool {
	return slices.ContainsFunc(a.disks(), func(d *device) bool { return slices.Contains(b.disks(), d) })
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
