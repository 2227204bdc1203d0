// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Listed returns the devices that are disks of the node, by identity, and why each of the others
// is not. Devices of one identity are in the order of their paths.
//
// Devices that pods, or what is plugged in, can create are not listed: their number has no
// limit, and each would take a slot.
func Listed(devices []disk.BlockDevice) (listed map[disk.Identity][]disk.BlockDevice, others map[string]*disk.Problem) {
	listed, others = map[disk.Identity][]disk.BlockDevice{}, map[string]*disk.Problem{}
	for i := range devices {
		d := &devices[i]
		if problem := noDisk(d); problem != nil {
			others[d.Path] = problem
		} else {
			listed[d.Identity] = append(listed[d.Identity], *d)
		}
	}
	for _, paths := range listed {
		slices.SortFunc(paths, func(a, b disk.BlockDevice) int {
			return cmp.Or(cmp.Compare(len(a.Path), len(b.Path)), cmp.Compare(a.Path, b.Path)) // sdz before sdaa
		})
	}
	return listed, others
}

// noDisk returns why a device is not a disk of the node; nil if it is one.
func noDisk(d *disk.BlockDevice) *disk.Problem {
	switch {
	case d.Transport == "":
		return disk.Problemf(disk.NoHardware, "%s is made of other devices, of a file or of memory", d.Path)
	case d.Removable:
		return disk.Problemf(disk.Removable, "%s is removable", d.Path)
	case d.Networked:
		return disk.Problemf(disk.Networked, "%s is a volume of a cloud or a SAN, which other machines can attach", d.Path)
	case d.Identity == "":
		return disk.Problemf(disk.Unidentified, "the kernel reports nothing that identifies %s", d.Path)
	default:
		return nil
	}
}

// Ineligible returns why a disk cannot be taken by a rule, as far as that is known without
// reading it; nil if its content decides. devices are its devices, at least one. kubelet is
// kubelet's root directory on the node.
func Ineligible(devices []disk.BlockDevice, kubelet string) *disk.Problem {
	d := &devices[0]
	switch {
	case len(devices) > 1:
		return disk.Problemf(disk.SharedIdentity, "%s have the same identity: they are paths to one disk, or copies", strings.Join(pathsOf(devices), ", "))
	case d.Bytes <= 0:
		return disk.Problemf(disk.NoCapacity, "%s has no bytes", d.Path)
	case d.ReadOnly:
		return disk.Problemf(disk.DeviceReadOnly, "%s rejects writes", d.Path)
	case len(d.Users) > 0:
		return disk.Problemf(disk.InUse, "%s is used by %s", d.Path, lastingUser(d.Users, kubelet))
	case len(d.Partitions) > 0:
		return disk.Problemf(disk.Partitioned, "%s has partitions", d.Path)
	default:
		return nil
	}
}

func pathsOf(devices []disk.BlockDevice) []string {
	var paths []string
	for i := range devices {
		paths = append(paths, devices[i].Path)
	}
	return paths
}

// lastingUser describes the users of a disk in words that do not change with every pod.
func lastingUser(users []disk.User, kubelet string) string {
	what := "pods"
	for _, u := range users { // in the order of What
		switch {
		case u.What == "holder":
			return "device mapper, md or bcache"
		case u.What == "mount" && !strings.HasPrefix(u.Where, kubelet+"/"):
			return u.String()
		case u.What != "mount":
			what = "a " + u.What
		}
	}
	return what
}

// DiskStatus returns the status of a disk without Since. devices are its devices, at least one;
// entry is the entry of a discovery directory that leads to it, nil if there is none; content is
// what the disk holds, nil if it was not read.
func DiskStatus(devices []disk.BlockDevice, entry *disk.Fact, problem *disk.Problem, content *disk.Superblock) stowage.LocalDiskStatus {
	d := &devices[0]
	status := stowage.LocalDiskStatus{
		Identity: string(d.Identity), Device: d.Path, Bytes: d.Bytes, Size: rounded(d.Bytes), Transport: string(d.Transport),
		Rotational: d.Rotational, Model: d.Model, Serial: d.Serial, State: stowage.LocalDiskEligible, Health: stowage.LocalDiskHealthy,
	}
	if problem == nil && content != nil {
		problem = contentProblem(d, content)
	}
	if entry != nil {
		status.State, status.Class, status.Path, problem = stowage.LocalDiskAssigned, entry.Class, entry.HostPath, faultOf(entry.Problem)
	} else if problem != nil {
		status.State = stowage.LocalDiskIneligible
	}
	if problem != nil {
		status.Reason, status.Message = string(problem.Reason), problem.Message
	}
	if faultOf(problem) != nil {
		status.Health = stowage.LocalDiskFailing
	}
	return stowage.FitLocalDisk(status)
}

// WithHealth adds the health of the disk of an entry to its status.
func WithHealth(status stowage.LocalDiskStatus, h *disk.Health, identity disk.Identity) stowage.LocalDiskStatus {
	problem := HealthProblem(h, identity)
	if problem == nil || status.Health == stowage.LocalDiskFailing && h.Current() != disk.Failing {
		return status
	}
	status.Health, status.Reason, status.Message = stowage.LocalDiskHealth(h.Current()), string(problem.Reason), problem.Message
	return stowage.FitLocalDisk(status)
}

// MissingDisk returns the status of a disk that is not attached, from its last one.
func MissingDisk(last stowage.LocalDiskStatus) stowage.LocalDiskStatus {
	last.State, last.Reason, last.Message = stowage.LocalDiskMissing, string(disk.Missing), "the disk is not attached to the node"
	last.Class, last.Path = "", ""
	return last
}

// contentProblem returns why the content of a disk makes it ineligible; nil if it does not.
func contentProblem(d *disk.BlockDevice, content *disk.Superblock) *disk.Problem {
	switch {
	case content.Problem != nil:
		return content.Problem
	case !content.Blank():
		return disk.Problemf(disk.NotEmpty, "%s holds %s", d.Path, content.Holds())
	default:
		return nil
	}
}

// faultOf returns a problem that shows that a disk is failing; nil for others. One timeout
// proves nothing.
func faultOf(problem *disk.Problem) *disk.Problem {
	if problem == nil {
		return nil
	}
	switch problem.Reason {
	case disk.IOError, disk.FilesystemError, disk.DeviceReadOnly:
		return problem
	default:
		return nil
	}
}

// rounded returns a size that can be read at a glance.
func rounded(bytes int64) *resource.Quantity {
	const mib, gib = 1 << 20, 1 << 30
	unit := int64(gib)
	if bytes < gib {
		unit = mib
	}
	return resource.NewQuantity(max(bytes, 0)/unit*unit, resource.BinarySI)
}

// EntryOf returns the entry of a discovery directory that leads to a disk, to a partition of it
// or to a file system that is mounted from it; nil if there is none. Of several the one with the
// first path is returned.
func EntryOf(d *disk.BlockDevice, facts map[disk.Key]disk.Fact) *disk.Fact {
	var found *disk.Fact
	for _, key := range slices.SortedFunc(maps.Keys(facts), func(a, b disk.Key) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Name, b.Name)) }) {
		fact := facts[key]
		mounted := slices.ContainsFunc(d.Users, func(u disk.User) bool { return u.What == "mount" && u.Where == path.Clean(fact.HostPath) })
		if (mounted || leadsTo(&fact, d)) && (found == nil || fact.HostPath < found.HostPath) {
			found = &fact
		}
	}
	return found
}

// leadsTo reports whether the device of an entry is a disk or a partition of it.
func leadsTo(fact *disk.Fact, d *disk.BlockDevice) bool {
	return fact.Identity != "" && (fact.Identity == d.Identity || fact.Identity.PartOf(d.Identity)) ||
		fact.Place == "dev:"+d.Number
}

// DiskSlots returns the slot of each disk that is present, and how many have none because there
// are too many. known are the last statuses, by slot. A disk keeps its slot as long as its name is
// the same. A new one gets the first slot that is free or whose disk cannot return, because it had
// no lasting name; if there is none, that of the disk that is missing for the longest time.
func DiskSlots(known map[int]stowage.LocalDiskStatus, present []disk.Identity) (slots map[disk.Identity]int, omitted int) {
	slots = map[disk.Identity]int{}
	byName, taken := map[string]int{}, map[int]bool{}
	for _, slot := range slices.Backward(slices.Sorted(maps.Keys(known))) {
		byName[disk.Identity(known[slot].Identity).Name()] = slot
	}
	ordered := slices.Sorted(slices.Values(present))
	for _, id := range ordered {
		if slot, ok := byName[id.Name()]; ok && !taken[slot] {
			slots[id], taken[slot] = slot, true
		}
	}
	for _, id := range ordered {
		if _, ok := slots[id]; ok {
			continue
		}
		slot := newSlot(known, taken)
		if slot < 0 {
			omitted++
			continue
		}
		slots[id], taken[slot] = slot, true
	}
	return slots, omitted
}

// newSlot returns a slot for a disk that has none; -1 if all are taken.
func newSlot(known map[int]stowage.LocalDiskStatus, taken map[int]bool) int {
	oldest := -1
	for slot := range stowage.MaxLocalDisks {
		status, used := known[slot]
		switch {
		case taken[slot]:
		case !used, disk.Identity(status.Identity).Unnamed(), status.Identity == "":
			return slot
		case oldest < 0, status.Since.Before(known[oldest].Since):
			oldest = slot
		}
	}
	return oldest
}
