// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"path"
	"slices"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/usage"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// claimed fills in what shares a fact's bytes, and sets a problem if the node uses them for
// something other than the slot's own volume.
func claimed(survey *usage.Survey, f disk.Fact, volume string) disk.Fact {
	if f.Place == "" {
		return f
	}
	overlaps, err := survey.Overlaps(f.Place)
	var users []disk.User
	if err == nil {
		f.Overlaps = overlaps
		users, err = survey.Claimed(f, volume)
	}
	// A device's node may be mounted on the entry itself.
	users = slices.DeleteFunc(users, func(u disk.User) bool { return u.Where == f.HostPath })
	switch {
	case f.Problem != nil: // already has a problem
	case err != nil:
		f.Problem = disk.Problemf(disk.Unreadable, "cannot determine whether the node uses %s: %v", f.HostPath, err)
	case len(users) > 0:
		names := make([]string, len(users))
		for i, u := range users {
			names[i] = u.String()
		}
		f.Problem = disk.Problemf(disk.InUse, "the node uses %s: %s", f.HostPath, strings.Join(names, ", "))
	}
	return f
}

// onTheHost returns the paths of the folders on the host. A path with symlinks there, which
// cannot be followed from here, is replaced by what it leads to: all paths at which the host
// has what the provisioner sees.
func (v *view) onTheHost(listings []*listing) []string {
	var paths []string
	for _, l := range listings {
		paths = append(paths, l.HostPath)
		inside := path.Join(l.mount.Root, strings.TrimPrefix(l.at, l.mount.Point))
		for _, m := range v.host.OfDevice(l.mount.Major, l.mount.Minor) {
			if mounts.Within(m.Root, inside) {
				paths = append(paths, path.Join(m.Point, strings.TrimPrefix(inside, m.Root)))
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
