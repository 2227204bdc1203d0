// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"slices"
	"time"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// observation is what scans found at a path.
type observation struct {
	fact  *disk.Fact // of the last scan; nil for none
	since time.Time  // when the fact was first found as it is
	// gone counts scans in a row that found no disk; goneAt is when the last one that counts
	// was.
	gone   int
	goneAt time.Time
	fault  decide.Fault // of a disk that returns errors or does not answer
}

// scanContext is what a scan is compared with.
type scanContext struct {
	conf  *settings
	known []disk.Known  // slots of the node's volumes and records
	apart time.Duration // scans that are closer together count as one
}

// observe stores what a scan found. It returns the paths that have changed, and whether the
// next scan has to be soon.
func (t *pathTable) observe(scanned disk.Scanned, c scanContext) (changed []string, soon bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	read, present, next := map[string]bool{}, map[disk.Identity]bool{}, map[string]observation{}
	for _, folder := range c.conf.folders {
		read[folder.Class] = scanned.Trouble[folder.Class] == nil
		if read[folder.Class] != t.read[folder.Class] {
			changed = append(changed, t.pathsOfClass(folder.Class, c.known)...)
		}
	}
	for _, fact := range scanned.Facts {
		o := t.observedAt(fact.HostPath).found(fact, now, c.apart)
		next[fact.HostPath], present[fact.Identity] = o, true
		soon = soon || o.fault.Changing()
	}
	for _, path := range t.pathsToCompare(next, c.known) {
		last, o := t.observedAt(path), next[path]
		key, ok := c.conf.keyOf(path)
		if ok && !read[key.Class] {
			if last.fault != (decide.Fault{}) {
				o.fault = last.fault
			}
			next[path] = o
			continue
		}
		s := decide.Slot{Fact: o.fact}
		if ok && s.Vacant() {
			o.countGone(last, now, c.apart)
			soon = soon || o.gone < decide.GoneAfter
		}
		next[path] = o
		if o.differs(last) || t.byPath[path] != nil && t.byPath[path].entry.retriesOnScan() {
			changed = append(changed, path)
		}
	}
	for path := range t.byPath {
		if _, ok := next[path]; !ok {
			next[path] = observation{}
		}
	}
	for path, o := range next {
		t.updateLocked(path, func(s *pathState) { s.observed = o })
	}
	t.present, t.trouble, t.read = present, scanned.Trouble, read
	return changed, soon
}

// observedAt returns the observation of a path. The caller holds mu.
func (t *pathTable) observedAt(path string) observation {
	if s := t.byPath[path]; s != nil {
		return s.observed
	}
	return observation{}
}

// pathsOfClass are the paths of a class at which a disk was found or that have a volume. The
// caller holds mu.
func (t *pathTable) pathsOfClass(class string, known []disk.Known) []string {
	var found []string
	for path, s := range t.byPath {
		if fact := s.observed.fact; fact != nil && fact.Class == class {
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
// volumes. The caller holds mu.
func (t *pathTable) pathsToCompare(next map[string]observation, known []disk.Known) []string {
	var all []string
	for path := range next {
		all = append(all, path)
	}
	for path, s := range t.byPath {
		if s.observed.fact != nil {
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
func (o observation) found(fact disk.Fact, now time.Time, apart time.Duration) observation {
	next := observation{since: now, fault: o.fault.Observe(fact.Problem, now, apart)}
	fact.Problem = next.fault.Problem(fact.Problem)
	var before disk.Attachment
	if o.fact != nil && o.fact.Identity == fact.Identity {
		before = o.fact.Attachment
	}
	fact.Attachment = fact.Attachment.Continue(before, now)
	if o.fact != nil && sameFact(*o.fact, fact) {
		next.since = o.since
	}
	next.fact = &fact
	return next
}

// countGone counts that the path leads to no disk. Scans that follow each other at once,
// since something else has changed, count as one.
func (o *observation) countGone(last observation, now time.Time, apart time.Duration) {
	o.gone, o.goneAt = last.gone, last.goneAt
	switch {
	case o.gone == 0:
		o.gone, o.goneAt = 1, now
	case o.gone < decide.GoneAfter && now.Sub(o.goneAt) >= apart:
		o.gone, o.goneAt = o.gone+1, now
	}
}

// differs reports whether a path has changed since the last scan.
func (o *observation) differs(last observation) bool {
	if o.fault.Failing != last.fault.Failing || o.gone != last.gone || (o.fact == nil) != (last.fact == nil) {
		return true
	}
	return o.fact != nil && !sameFact(*last.fact, *o.fact)
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
