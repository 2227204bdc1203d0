// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/usage"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// resolveConflicts ensures that no byte is offered twice: of several slots that lead to the same bytes,
// or to some of the same, one keeps them and the others get a problem that names it. Devices with
// one identity all get a problem: it does not show which of them is the volume's.
// Precedence is: a slot whose volume was published of exactly these bytes, one with any
// volume, one with a record, the order of class and name. The given facts are not changed.
func resolveConflicts(facts []disk.Fact, known []disk.Known) map[disk.Key]disk.Fact {
	slots := slotsOf(known)
	order := slices.Clone(facts)
	slices.SortFunc(order, func(a, b disk.Fact) int {
		return cmp.Or(
			cmp.Compare(slots[a.Key].rank(a), slots[b.Key].rank(b)),
			strings.Compare(a.Class, b.Class),
			strings.Compare(a.Name, b.Name),
		)
	})
	resolved := make(map[disk.Key]disk.Fact, len(facts))
	var kept []disk.Fact
	for _, f := range order {
		volume := slots[f.Key].volume != ""
		if f.Problem == nil {
			f.Problem = ambiguous(f, order)
		}
		if f.Problem == nil {
			f.Problem = contested(f, kept)
		}
		if f.Problem == nil && !volume {
			f.Problem = publishedElsewhere(f, known)
		}
		resolved[f.Key] = f
		// A volume's bytes are its own, even if it has a problem.
		if f.Place != "" && (f.Problem == nil || volume) {
			kept = append(kept, f)
		}
	}
	return resolved
}

// slot is what is known about a slot.
type slot struct {
	// volume is the name of the slot's volume; empty if there is none.
	volume string
	record bool
	// published are the disks that volumes of the slot were published of.
	published []disk.Identity
}

func slotsOf(known []disk.Known) map[disk.Key]slot {
	slots := make(map[disk.Key]slot)
	for _, k := range known {
		s := slots[k.Key]
		s.record = true
		if k.Volume != "" {
			s.volume = k.Volume
			if k.Identity != "" {
				s.published = append(s.published, k.Identity)
			}
		}
		slots[k.Key] = s
	}
	return slots
}

func (s slot) rank(f disk.Fact) int {
	switch {
	case slices.Contains(s.published, f.Identity):
		return 0
	case s.volume != "":
		return 1
	case s.record:
		return 2
	default:
		return 3
	}
}

// ambiguous returns a problem if another device has a device's identity.
func ambiguous(f disk.Fact, all []disk.Fact) *disk.Problem {
	if f.Identity == "" || f.Identity.Kind() != disk.Device {
		return nil
	}
	for _, other := range all {
		if other.Identity == f.Identity && other.Place != f.Place {
			return disk.Problemf(disk.SharedIdentity, "%s and %s of class %s have the same identity (%s): they are paths to one disk, or copies", f.HostPath, other.HostPath, other.Class, f.Identity)
		}
	}
	return nil
}

// contested returns a problem if a kept fact has a fact's bytes.
func contested(f disk.Fact, kept []disk.Fact) *disk.Problem {
	if f.Place == "" {
		return nil
	}
	for _, k := range kept {
		switch {
		case k.Place == f.Place:
			return disk.Problemf(disk.SameBytes, "%s leads to the same bytes as %s of class %s", f.HostPath, k.HostPath, k.Class)
		case k.Identity != "" && k.Identity == f.Identity:
			return disk.Problemf(disk.SameBytes, "%s has the same identity as %s of class %s (%s): it may be a copy", f.HostPath, k.HostPath, k.Class, k.Identity)
		case overlap(f, k):
			return disk.Problemf(disk.InUse, "%s shares bytes with %s of class %s: offer the whole or its parts, not both", f.HostPath, k.HostPath, k.Class)
		}
	}
	return nil
}

// publishedElsewhere returns a problem if a slot without a volume leads to the disk that a
// volume of another slot was published of, or to a part of it, or to what it is a part of. The
// other slot itself may lead nowhere now, or may not have answered.
func publishedElsewhere(f disk.Fact, known []disk.Known) *disk.Problem {
	for _, k := range known {
		switch {
		case k.Volume == "" || k.Key == f.Key || k.Identity == "" || f.Identity == "":
		case k.Displaced && k.Key.Class == f.Class && k.Identity == f.Identity: // the slot becomes the volume's
		case k.Identity == f.Identity:
			return disk.Problemf(disk.SameBytes, "%s is the disk of volume %s, which was published at %s: attach or mount the disk there again, or delete the volume", f.HostPath, k.Volume, k.HostPath)
		case k.Identity.PartOf(f.Identity) || f.Identity.PartOf(k.Identity):
			return disk.Problemf(disk.InUse, "%s shares bytes with the disk of volume %s, which was published at %s", f.HostPath, k.Volume, k.HostPath)
		}
	}
	return nil
}

// overlap reports whether two facts have some bytes in common, but not all.
func overlap(a, b disk.Fact) bool {
	return slices.Contains(a.Overlaps, b.Place) || slices.Contains(b.Overlaps, a.Place) ||
		covers(a.Place, b.Place) || covers(b.Place, a.Place)
}

// covers reports whether the Place of a file system is another one or contains it.
func covers(a, b string) bool {
	return strings.HasPrefix(a, "fs:") && mounts.Within(a, b)
}

// checkUsers fills in what shares a fact's bytes, and sets a problem if the node uses them for
// something other than the slot's own volume.
func checkUsers(survey *usage.Survey, f disk.Fact, volume string) disk.Fact {
	if f.Place == "" {
		return f
	}
	overlaps, err := survey.Overlaps(f.Place)
	var users []disk.User
	if err == nil {
		f.Overlaps = overlaps
		users, err = survey.BlockingUsers(f, volume)
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
		inside := l.mount.Inside(l.at)
		for _, m := range v.host.OfDevice(l.mount.Major, l.mount.Minor) {
			if mounts.Within(m.Root, inside) {
				paths = append(paths, path.Join(m.Point, strings.TrimPrefix(inside, m.Root)))
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
