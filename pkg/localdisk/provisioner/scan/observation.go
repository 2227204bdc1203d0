// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"slices"
	"time"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Observation is what scans found at a path.
type Observation struct {
	Fact  *disk.Fact // of the last scan; nil for none
	Since time.Time  // when the fact was first found as it is
	// Missed counts scans in a row that found no disk; missedAt is when the last one that counts
	// was.
	Missed   int
	missedAt time.Time
	Fault    decide.Fault // of a disk that returns errors or does not answer
}

// State is what the scans so far found.
type State struct {
	// Paths has an observation of each path at which a disk was found or is expected.
	Paths map[string]Observation
	// Read are the classes whose directory was read.
	Read map[string]bool
}

// Compare returns the state after a scan, the paths that have changed, and whether the next scan
// has to be soon. known are the slots of the node's volumes and records. Scans that are closer
// together than apart count as one.
func Compare(last State, scanned disk.Scanned, folders Folders, known []disk.Known, apart time.Duration) (next State, changed []string, soon bool) {
	now := time.Now()
	next = State{Paths: map[string]Observation{}, Read: map[string]bool{}}
	for _, folder := range folders {
		next.Read[folder.Class] = scanned.Trouble[folder.Class] == nil
		if next.Read[folder.Class] != last.Read[folder.Class] {
			changed = append(changed, last.pathsOfClass(folder.Class, known)...)
		}
	}
	for _, fact := range scanned.Facts {
		o := last.Paths[fact.HostPath].found(fact, now, apart)
		next.Paths[fact.HostPath] = o
		soon = soon || o.Fault.Changing()
	}
	for _, path := range pathsToCompare(last, next, known) {
		before, o := last.Paths[path], next.Paths[path]
		key, ok := folders.KeyOf(path)
		if ok && !next.Read[key.Class] {
			if before.Fault != (decide.Fault{}) {
				o.Fault = before.Fault
			}
			next.Paths[path] = o
			continue
		}
		s := decide.Slot{Fact: o.Fact}
		if ok && s.Vacant() {
			o.countMissed(before, now, apart)
			soon = soon || o.Missed < decide.AbsentAfter
		}
		next.Paths[path] = o
		if o.differs(before) {
			changed = append(changed, path)
		}
	}
	return next, changed, soon
}

// pathsOfClass are the paths of a class at which a disk was found or that have a volume.
func (s *State) pathsOfClass(class string, known []disk.Known) []string {
	var found []string
	for path, o := range s.Paths {
		if o.Fact != nil && o.Fact.Class == class {
			found = append(found, path)
		}
	}
	for _, k := range known {
		if k.Volume != "" && k.Key.Class == class {
			found = append(found, k.HostPath)
		}
	}
	return found
}

// pathsToCompare are the paths at which this scan or the last one found a disk, and those of
// volumes.
func pathsToCompare(last, next State, known []disk.Known) []string {
	var all []string
	for path := range next.Paths {
		all = append(all, path)
	}
	for path, o := range last.Paths {
		if o.Fact != nil {
			all = append(all, path)
		}
	}
	for _, k := range known {
		if k.Volume != "" {
			all = append(all, k.HostPath)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// found returns the observation after a scan that found a fact. A fault of the disk stays
// part of the fact until it has not occurred for some scans.
func (o Observation) found(fact disk.Fact, now time.Time, apart time.Duration) Observation {
	next := Observation{Since: now, Fault: o.Fault.Observe(fact.Problem, now, apart)}
	fact.Problem = next.Fault.Problem(fact.Problem)
	var before disk.Attachment
	if o.Fact != nil && o.Fact.Identity == fact.Identity {
		before = o.Fact.Attachment
	}
	fact.Attachment = fact.Attachment.Continue(before, now)
	if o.Fact != nil && sameFact(*o.Fact, fact) {
		next.Since = o.Since
	}
	next.Fact = &fact
	return next
}

// countMissed counts that the path leads to no disk. Scans that follow each other at once,
// since something else has changed, count as one.
func (o *Observation) countMissed(last Observation, now time.Time, apart time.Duration) {
	o.Missed, o.missedAt = last.Missed, last.missedAt
	switch {
	case o.Missed == 0:
		o.Missed, o.missedAt = 1, now
	case o.Missed < decide.AbsentAfter && now.Sub(o.missedAt) >= apart:
		o.Missed, o.missedAt = o.Missed+1, now
	}
}

// differs reports whether a path has changed since the last scan.
func (o *Observation) differs(last Observation) bool {
	if o.Fault.Failing != last.Fault.Failing || o.Missed != last.Missed || (o.Fact == nil) != (last.Fact == nil) {
		return true
	}
	return o.Fact != nil && !sameFact(*last.Fact, *o.Fact)
}

// sameFact reports whether two facts are equal, except for a size that changes with what is
// written to a shared file system.
func sameFact(a, b disk.Fact) bool {
	if a.SharesSpace() {
		a.Bytes = b.Bytes
	}
	if (a.Problem == nil) != (b.Problem == nil) || a.Problem != nil && *a.Problem != *b.Problem {
		return false
	}
	a.Problem, b.Problem = nil, nil
	overlaps := slices.Equal(a.Overlaps, b.Overlaps)
	a.Overlaps, b.Overlaps = nil, nil
	return overlaps && a.Key == b.Key && a.HostPath == b.HostPath && a.Path == b.Path && a.Device == b.Device && a.Kind == b.Kind &&
		a.FilesystemType == b.FilesystemType && a.Identity == b.Identity && a.Place == b.Place && a.Attachment == b.Attachment && a.Bytes == b.Bytes
}
