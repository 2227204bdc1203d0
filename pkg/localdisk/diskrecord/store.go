// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	suffix = ".json"
	// newSuffix comes after suffix while a file is being written.
	newSuffix = ".new"
)

// fileName is the name of the file of a disk: the SHA-256 of its identity, in hex,
// so that a file which cannot be read still says which disk it is of.
func fileName(identity disk.Identity) string {
	hash := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(hash[:]) + suffix
}

// ofRecord reports whether a file name is one that fileName makes.
func ofRecord(name string) bool {
	hash, ok := strings.CutSuffix(name, suffix)
	if !ok || len(hash) != hex.EncodedLen(sha256.Size) {
		return false
	}
	_, err := hex.DecodeString(hash)
	return err == nil && hash == strings.ToLower(hash)
}

// Store is the records of a node's disks. It is safe for concurrent use: writes
// come one after the other, and reads do not wait for them.
type Store struct {
	folder folder

	// writing is held while files are written, known while the maps are looked at or
	// changed. Whoever has writing is the only one to change the maps.
	writing sync.Mutex
	known   sync.RWMutex
	records map[disk.Identity]disk.Record
	// index has the identities of the records with a key, for every key of keysOf.
	index map[key]map[disk.Identity]bool
	// damaged is by file name.
	damaged map[string]*Damaged

	// predecessor is the ID of a killed process that had the folder before and has not ended,
	// 0 if there is none; unfinished are the disks that it may be cleaning still.
	predecessor func() int
	killed      int
	unfinished  map[disk.Identity]bool
}

// key is what records are looked up by.
type key struct {
	of    keyKind
	value string
}

type keyKind int

const (
	ofPath keyKind = iota
	ofName
	ofDirtyWeak
)

// keysOf are the keys of a record.
func keysOf(r *disk.Record) []key {
	keys := []key{{ofPath, r.HostPath}, {ofName, r.Identity.Name()}}
	if r.State.Dirty() && r.Identity.Weak() {
		keys = append(keys, key{of: ofDirtyWeak})
	}
	return keys
}

func newStore(files folder) *Store {
	return &Store{folder: files, records: map[disk.Identity]disk.Record{}, index: map[key]map[disk.Identity]bool{}, damaged: map[string]*Damaged{}, unfinished: map[disk.Identity]bool{}}
}

// set adds a record, or replaces the one of the same identity. The caller holds known, or
// is alone.
func (s *Store) set(record disk.Record) {
	s.unset(record.Identity)
	s.records[record.Identity] = record
	for _, k := range keysOf(&record) {
		if s.index[k] == nil {
			s.index[k] = map[disk.Identity]bool{}
		}
		s.index[k][record.Identity] = true
	}
}

// unset removes a record, if there is one. The caller holds known, or is alone.
func (s *Store) unset(identity disk.Identity) {
	record, ok := s.records[identity]
	if !ok {
		return
	}
	delete(s.records, identity)
	for _, k := range keysOf(&record) {
		if delete(s.index[k], identity); len(s.index[k]) == 0 {
			delete(s.index, k)
		}
	}
}

// Open reads the records in a folder, which it makes if need be, and keeps the
// folder for itself until Close: ErrLocked if another agent has it. Records that
// cannot be read are no error, see Damaged. Files with other names are left alone.
//
// A process that has the folder, was killed and cannot end, because a disk does not answer,
// is no obstacle; see Predecessor. proc is where the processes of the node are found, "/proc"
// on the node itself.
func Open(path, proc string) (*Store, error) {
	files, err := lock(path, proc)
	if err != nil {
		return nil, fmt.Errorf("open disk records in %s: %w", path, err)
	}
	s, err := load(files)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read disk records in %s: %w", path, err), files.Close())
	}
	s.predecessor = func() int { return files.predecessor(proc) }
	if s.killed = s.predecessor(); s.killed != 0 {
		for identity, record := range s.records {
			if record.State == disk.Cleaning {
				s.unfinished[identity] = true
			}
		}
	}
	return s, nil
}

// Predecessor is the ID of a process that had the folder before, was killed and has not ended;
// 0 if there is none, or it has ended at the last Recheck.
func (s *Store) Predecessor() int {
	s.known.RLock()
	defer s.known.RUnlock()
	return s.killed
}

// Cleaner is the Predecessor, if it may be cleaning the disk still; 0 if not.
func (s *Store) Cleaner(identity disk.Identity) int {
	s.known.RLock()
	defer s.known.RUnlock()
	if !s.unfinished[identity] {
		return 0
	}
	return s.killed
}

func load(files folder) (*Store, error) {
	s := newStore(files)
	names, err := files.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if record, ok := strings.CutSuffix(name, newSuffix); ok && ofRecord(record) {
			if err := files.remove(name); err != nil {
				return nil, fmt.Errorf("remove unfinished record: %w", err)
			}
		}
		if ofRecord(name) {
			s.take(name)
		}
	}
	// An agent that was killed may not have come to this, and what has been read is
	// relied upon from here on.
	return s, files.sync()
}

// take reads a file into the maps; a file that is gone leaves them. The caller
// holds known, or is alone.
func (s *Store) take(name string) {
	delete(s.damaged, name)
	data, err := s.folder.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var record disk.Record
	if err == nil {
		record, err = decode(data)
	}
	if err == nil && fileName(record.Identity) != name {
		err = fmt.Errorf("it is the record of another disk, %s", record.Identity)
	}
	if err == nil {
		s.set(record)
		return
	}
	damaged := &Damaged{File: name, Err: err}
	if damaged.Identity, damaged.HostPath = salvage(data); fileName(damaged.Identity) != name {
		damaged.Identity = ""
	}
	s.damaged[name] = damaged
}

// Close gives the folder back. Nothing can be written afterwards.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.folder.Close()
}

// Get returns the record of a disk, and false if there is none. The error is a
// *Damaged: there is a record, and it cannot be read.
func (s *Store) Get(identity disk.Identity) (disk.Record, bool, error) {
	s.known.RLock()
	defer s.known.RUnlock()
	if damaged, ok := s.damaged[fileName(identity)]; ok {
		return disk.Record{}, false, damaged
	}
	record, ok := s.records[identity]
	return clone(record), ok, nil
}

// All returns all records that can be read, by identity. It copies all of them: what is
// asked about every slot is looked up by one of the methods below.
func (s *Store) All() []disk.Record {
	s.known.RLock()
	defer s.known.RUnlock()
	return s.copies(maps.Keys(s.records))
}

// ByPath returns the records of the disks that were at the path on the node, by identity;
// see DamagedAt for those that cannot be read.
func (s *Store) ByPath(hostPath string) []disk.Record {
	return s.with(key{ofPath, hostPath})
}

// ByName returns the records of the disks with a name (disk.Identity.Name), on whatever
// machine they were, by identity.
func (s *Store) ByName(name string) []disk.Record {
	return s.with(key{ofName, name})
}

// DirtyWeak returns the identities of the dirty disks whose identity is weak, in no order.
func (s *Store) DirtyWeak() []disk.Identity {
	s.known.RLock()
	defer s.known.RUnlock()
	return slices.Collect(maps.Keys(s.index[key{of: ofDirtyWeak}]))
}

func (s *Store) with(k key) []disk.Record {
	s.known.RLock()
	defer s.known.RUnlock()
	return s.copies(maps.Keys(s.index[k]))
}

// copies are the records of identities, in order. The caller holds known.
func (s *Store) copies(identities iter.Seq[disk.Identity]) []disk.Record {
	var found []disk.Record
	for identity := range identities {
		found = append(found, clone(s.records[identity]))
	}
	slices.SortFunc(found, func(a, b disk.Record) int { return cmp.Compare(a.Identity, b.Identity) })
	return found
}

// Damaged returns the records that cannot be read, by file name.
func (s *Store) Damaged() []Damaged {
	return s.damagedWhere(func(*Damaged) bool { return true })
}

// DamagedAt returns the records that cannot be read and may be of a disk that was
// at the path: those that still tell the path, and those that tell none. A disk
// whose identity is strong is not concerned, since Get answers for it. One whose
// identity is weak may be the disk that such a record was written for.
func (s *Store) DamagedAt(hostPath string) []Damaged {
	return s.damagedWhere(func(d *Damaged) bool { return d.mayBeOf(hostPath) })
}

func (s *Store) damagedWhere(wanted func(*Damaged) bool) []Damaged {
	s.known.RLock()
	defer s.known.RUnlock()
	var found []Damaged
	for _, damaged := range s.damaged {
		if wanted(damaged) {
			found = append(found, *damaged)
		}
	}
	slices.SortFunc(found, func(a, b Damaged) int { return cmp.Compare(a.File, b.File) })
	return found
}

// clone copies what a record shares.
func clone(record disk.Record) disk.Record {
	record.Root = slices.Clone(record.Root)
	return record
}
