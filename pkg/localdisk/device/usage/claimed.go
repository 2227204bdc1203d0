// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package usage

import (
	"fmt"
	"path"
	"slices"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Claimed returns what of the node is a reason against offering what a fact is about
// as a volume. volume is the name of our volume for it, if there is one: what kubelet
// does with that is no reason.
//
// A device is claimed by whatever uses it, a part of it, or what it is a part of, and
// by what the host uses of the rest of its disk. What other volumes use of that rest,
// which is what is mounted in the discovery directories and in kubelet's folder, is
// no reason. A file system is claimed by other mounts of it outside of the discovery
// directories, by what uses its device beside it, by the system's own folders if they
// lie in it, and, as long as there is no volume, by what uses its files.
func (s *Survey) Claimed(fact disk.Fact, volume string) ([]disk.User, error) {
	t, err := s.target(fact.Place)
	if err != nil {
		return nil, fmt.Errorf("find what of the node uses %s: %w", fact.HostPath, err)
	}
	uses := s.systemOn(t)
	if t.device != nil {
		uses = append(uses, otherThan([]string{path.Clean(fact.HostPath)}, s.usesOfOverlap(t.device))...)
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
			case s.ofVolumes(u):
			case u.What == byHolder && o.whole:
				// Volume managers hold their own devices; what is at the end of it counts.
			default:
				uses = append(uses, u)
			}
		}
	}
	return uses
}

// ofVolumes says whether a use is one of those that volumes have.
func (s *Survey) ofVolumes(u use) bool {
	if u.path == "" {
		return false
	}
	return s.discovered(u.path) ||
		slices.ContainsFunc(kubeletPlaces, func(place string) bool { return containsPath(u.path, place) }) ||
		mounts.Within(path.Join(s.kubelet, "pods"), u.path) || mounts.Within(path.Join(s.kubelet, "plugins"), u.path)
}

// discovered says whether a path lies in a discovery directory, and is not one.
func (s *Survey) discovered(p string) bool {
	return slices.ContainsFunc(s.folders, func(f string) bool { return p != f && mounts.Within(f, p) })
}

// usesOfFiles returns what claims a folder of a file system.
func (s *Survey) usesOfFiles(t target, hostPath, volume string) []use {
	uses := slices.DeleteFunc(s.otherMounts(t, []string{path.Clean(hostPath)}), func(u use) bool { return s.discovered(u.path) })
	for _, d := range s.devicesOf(t) {
		uses = append(uses, s.grabs(d)...)
	}
	if volume == "" {
		uses = append(uses, s.filesWithin(t)...)
	}
	return uses
}
