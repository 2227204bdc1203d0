// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"path"
	"slices"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

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
	return s.discovered(u.path) ||
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
