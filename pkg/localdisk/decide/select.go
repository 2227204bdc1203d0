// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// DeviceRule matches a disk that meets all its conditions. Zero values are no conditions; a nil
// Rotational matches both.
type DeviceRule struct {
	Transport          disk.Transport
	Rotational         *bool
	MinBytes, MaxBytes int64
	// Globs (path.Match). Path is compared with the device node and the links to it.
	Model, Serial, Path string
}

// DeviceRules are those of a class: a disk is selected that one of Include and none of Exclude
// matches.
type DeviceRules struct {
	Include, Exclude []DeviceRule
	// Max is how many disks the class may have; 0 is no limit.
	Max int
}

// Held is what a class has of a disk besides a record: whether the record is dirty, whether there
// is a volume, and whether that has a claim.
type Held struct{ Dirty, Volume, Claimed bool }

// Selection is a request to select disks by rules.
type Selection struct {
	// Classes are the rules of all classes that have rules: no Include if they select nothing on
	// this node.
	Classes map[string]DeviceRules
	Devices []disk.BlockDevice
	// Held are the slots that have a volume or a record.
	Held map[disk.Key]Held
	// Entries are what the other classes have in their directories. Incomplete: some could not be
	// read, so that no disk is selected that no class has.
	Entries    map[disk.Key]disk.Fact
	Incomplete bool
}

// Selected is the result of a Selection.
type Selected struct {
	// Links are the device nodes of the slots that are to exist.
	Links map[disk.Key]string
	// Chosen are the slots whose disks the rules select. A slot that is not chosen is linked as long as
	// it has a volume or a dirty record, so that the class that it has it cleans it.
	Chosen map[disk.Key]bool
	// Contested are the disks that nothing is linked to because several classes select them.
	Contested map[disk.Key]*disk.Problem
}

// Ranks by which disks are chosen if there are more than DeviceRules.Max.
const (
	ofClaim = iota
	ofVolume
	ofDirty
	ofRecord
	ofNone
)

// candidateDisk is a disk that the rules of one class select.
type candidateDisk struct {
	key  disk.Key
	path string
	rank int
}

// Select selects disks by rules. A class keeps a disk that it has a volume or record of, whichever
// other class selects it too. A new disk must be unused (Ineligible), in no directory of another
// class, have a name that lasts, and be selected by one class only. The request is not changed.
func Select(s Selection) Selected {
	selected := Selected{Links: map[disk.Key]string{}, Chosen: map[disk.Key]bool{}, Contested: map[disk.Key]*disk.Problem{}}
	listed, _ := Listed(s.Devices)
	candidates, others := map[string][]candidateDisk{}, map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(listed)) {
		if len(listed[id]) > 1 || id.Unnamed() {
			continue // not one disk, or another one after a restart
		}
		d := &listed[id][0]
		class, held := s.choose(d, &selected)
		if held != "" {
			selected.Links[disk.Key{Class: held, Name: SlotName(id)}] = d.Path
			if class == "" {
				others[held]++
			}
		}
		if class != "" {
			key := disk.Key{Class: class, Name: SlotName(id)}
			candidates[class] = append(candidates[class], candidateDisk{key: key, path: d.Path, rank: s.rank(key)})
		}
	}
	for class, found := range candidates {
		slices.SortStableFunc(found, func(a, b candidateDisk) int { return cmp.Compare(a.rank, b.rank) })
		if limit := s.Classes[class].Max; limit > 0 {
			found = found[:min(len(found), max(limit-others[class], 0))]
		}
		for _, c := range found {
			selected.Chosen[c.key], selected.Links[c.key] = true, c.path
		}
	}
	return selected
}

// choose returns the class that is to have a disk, and the class that has it and has not
// cleaned it; each is empty for none.
func (s *Selection) choose(d *disk.BlockDevice, selected *Selected) (class, held string) {
	name, known := SlotName(d.Identity), ""
	var matching []string
	for _, class := range slices.Sorted(maps.Keys(s.Classes)) {
		key := disk.Key{Class: class, Name: name}
		switch h, ok := s.Held[key]; {
		case h.Dirty || h.Volume:
			held = class
		case ok:
			known = class
		}
		if rules := s.Classes[class]; rules.match(d) {
			matching = append(matching, class)
		}
	}
	known = cmp.Or(held, known)
	switch {
	case EntryOf(d, s.Entries) != nil, held == "" && (s.Incomplete || Ineligible([]disk.BlockDevice{*d}, "") != nil):
		return "", held
	case slices.Contains(matching, known):
		return known, held
	case held != "" || len(matching) == 0:
		return "", held
	case len(matching) == 1:
		return matching[0], ""
	}
	for _, class := range matching {
		selected.Contested[disk.Key{Class: class, Name: name}] = disk.Problemf(disk.SeveralClasses, "%s is selected by the rules of the classes %s, so none has it: change include or exclude of devices until one selects it", d.Path, strings.Join(matching, ", "))
	}
	return "", ""
}

// ContestedBy returns the problem of a disk that the rules of several classes select, from the facts that
// include Selected.Contested; nil for another disk.
func ContestedBy(d *disk.BlockDevice, facts map[disk.Key]disk.Fact) *disk.Problem {
	name := SlotName(d.Identity)
	for key, fact := range facts {
		if key.Name == name && fact.Problem != nil && fact.Problem.Reason == disk.SeveralClasses {
			return fact.Problem
		}
	}
	return nil
}

func (s *Selection) rank(key disk.Key) int {
	switch h, ok := s.Held[key]; {
	case h.Claimed:
		return ofClaim
	case h.Volume:
		return ofVolume
	case h.Dirty:
		return ofDirty
	case ok:
		return ofRecord
	default:
		return ofNone
	}
}

// match reports whether the rules select a device. udev makes its links after the kernel made the
// device, so a device without links may be one that a path excludes.
func (r *DeviceRules) match(d *disk.BlockDevice) bool {
	matches := func(rule DeviceRule) bool { return rule.match(d) }
	excludes := func(rule DeviceRule) bool {
		return rule.match(d) || len(d.Links) == 0 && strings.HasPrefix(rule.Path, "/dev/disk/")
	}
	return slices.ContainsFunc(r.Include, matches) && !slices.ContainsFunc(r.Exclude, excludes)
}

func (r *DeviceRule) match(d *disk.BlockDevice) bool {
	glob := func(pattern string, names ...string) bool {
		return pattern == "" || slices.ContainsFunc(names, func(name string) bool { ok, err := path.Match(pattern, name); return ok && err == nil })
	}
	return (r.Transport == "" || r.Transport == d.Transport) && (r.Rotational == nil || *r.Rotational == d.Rotational) &&
		d.Bytes >= r.MinBytes && (r.MaxBytes == 0 || d.Bytes <= r.MaxBytes) &&
		glob(r.Model, d.Model) && glob(r.Serial, d.Serial) && glob(r.Path, append(slices.Clone(d.Links), d.Path)...)
}

// nameLength is how much of a disk's name is in the name of its slot.
const nameLength = 64

// SlotName returns the name of the slot of a disk that is selected by rules: its name, as far as a
// file name can have it, and a hash of it. It is the same after a restart and on another machine.
func SlotName(id disk.Identity) string {
	sum := sha256.Sum256([]byte(id.Name()))
	plain := strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, id.Name())
	return plain[:min(len(plain), nameLength)] + "-" + hex.EncodeToString(sum[:8])
}
