// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskrecord stores the node's records of its disks: one file per disk identity, in a
// folder that survives the provisioner and a restart of the node. What Put has acknowledged
// survives a power cut; an unacknowledged write is either complete or absent. A file that
// cannot be read is kept, and blocks only the disk it was written for.
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

// fileName returns the name of a disk's file: the SHA-256 of its identity, in hex, so that the
// disk of an unreadable file is still known.
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

	// writing is held while files are written, known while the maps are read or changed. The
	// maps are changed only while writing is held.
	writing sync.Mutex
	known   sync.RWMutex
	records map[disk.Identity]disk.Record
	// index has the identities of the records with a key, for every key of keysOf.
	index map[key]map[disk.Identity]bool
	// damaged is by file name.
	damaged map[string]*Damaged

	// predecessor returns the ID of a killed process that had the folder before and has not
	// ended, or 0; unfinished are the disks that it may still be cleaning.
	predecessor func() int
	killed      int
	unfinished  map[disk.Identity]bool
}

// key is an index key.
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

// set adds a record, or replaces the one of the same identity. The caller holds known, or has
// the only reference to the store.
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

// unset removes a record, if there is one. Locking is as for set.
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

// Open reads the records in a folder, which it creates if necessary and locks until Close:
// ErrLocked if another provisioner has it. Records that cannot be read are no error, see
// Damaged. Files with other names are ignored.
//
// A killed process that still has the folder, because a disk does not answer, does not prevent
// Open; see Predecessor. proc is where the node's processes are found, "/proc" on the node
// itself.
func Open(path, proc string) (*Store, error) {
	files, err := lock(path, proc)
	if err != nil {
		return nil, fmt.Errorf("open disk records in %s: %w", path, err)
	}
	s, err := loadAll(files)
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

// Predecessor returns the ID of a killed process that had the folder before and has not ended;
// 0 if there is none, or it had ended at the last Recheck.
func (s *Store) Predecessor() int {
	s.known.RLock()
	defer s.known.RUnlock()
	return s.killed
}

// Cleaner returns Predecessor if it may still be cleaning the disk, else 0.
func (s *Store) Cleaner(identity disk.Identity) int {
	s.known.RLock()
	defer s.known.RUnlock()
	if !s.unfinished[identity] {
		return 0
	}
	return s.killed
}

func loadAll(files folder) (*Store, error) {
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
			s.load(name)
		}
	}
	// A provisioner that was killed may not have synced, and from here on the records are
	// relied upon.
	return s, files.sync()
}

// load reads a file into the maps, unless it does not exist. Locking is as for set.
func (s *Store) load(name string) {
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

// Close unlocks the folder. Nothing can be written afterwards.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.folder.Close()
}

// Get returns the record of a disk, and false if there is none. The error is a *Damaged if the
// record cannot be read.
func (s *Store) Get(identity disk.Identity) (disk.Record, bool, error) {
	s.known.RLock()
	defer s.known.RUnlock()
	if damaged, ok := s.damaged[fileName(identity)]; ok {
		return disk.Record{}, false, damaged
	}
	record, ok := s.records[identity]
	return clone(record), ok, nil
}

// All returns copies of all readable records, by identity. For lookups by slot use the methods
// below.
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

// ByName returns the records of the disks with a name (disk.Identity.Name), on any machine, by
// identity.
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

// copies returns copies of the records of identities, in order. The caller holds known.
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

// DamagedAt returns the unreadable records that may be of a disk that was at the path: those
// with the path, and those without any. It matters for disks with a weak identity, since Get
// reports the damaged record of a strong one.
func (s *Store) DamagedAt(hostPath string) []Damaged {
	return s.damagedWhere(func(d *Damaged) bool { return d.HostPath == "" || d.HostPath == hostPath })
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
