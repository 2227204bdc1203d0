// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Put writes a record, sets Updated, and returns once the record survives a power cut. After
// an error the store returns the previous record, and the file has either the old or the new
// one.
func (s *Store) Put(record disk.Record) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.put(record)
}

// Update changes a record: ErrNotFound if there is none. Other writes wait, so change must be
// quick and must not write to the store. If change returns an error, Update returns it and
// nothing is written.
func (s *Store) Update(identity disk.Identity, change func(*disk.Record) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	record, ok, err := s.Get(identity)
	if err == nil && !ok {
		err = ErrNotFound
	}
	if err == nil {
		err = change(&record)
	}
	if err == nil && record.Identity != identity {
		err = fmt.Errorf("the identity must stay, and became %q", record.Identity)
	}
	if err != nil {
		return fmt.Errorf("update record of disk %s: %w", identity, err)
	}
	return s.put(record)
}

// Delete removes the record of a disk, and returns once that is on disk. A missing record is
// no error.
func (s *Store) Delete(identity disk.Identity) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, _, err := s.Get(identity); err != nil {
		return fmt.Errorf("delete record of disk %s: %w", identity, err)
	}
	err := s.folder.remove(fileName(identity))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = s.folder.sync()
	}
	if err != nil {
		return fmt.Errorf("delete record of disk %s: %w", identity, err)
	}
	s.known.Lock()
	defer s.known.Unlock()
	s.unset(identity)
	return nil
}

// Recheck reads the damaged records again: an administrator may have moved them away or
// repaired them. It also checks whether Predecessor has ended.
func (s *Store) Recheck() {
	s.writing.Lock()
	defer s.writing.Unlock()
	// In a separate store, since readers must not wait for files.
	again := newStore(s.folder)
	for _, damaged := range s.Damaged() {
		again.load(damaged.File)
	}
	killed := s.Predecessor()
	if killed != 0 {
		killed = s.predecessor()
	}
	s.known.Lock()
	defer s.known.Unlock()
	s.killed = killed
	s.damaged = again.damaged
	for _, record := range again.records {
		s.set(record)
	}
}

// put is Put with writing held.
func (s *Store) put(record disk.Record) error {
	_, _, err := s.Get(record.Identity)
	var data []byte
	var stored disk.Record
	if err == nil {
		data, stored, err = encode(record, time.Now())
	}
	if err == nil {
		err = s.replace(fileName(record.Identity), data)
	}
	if err != nil {
		return fmt.Errorf("write record of disk %s: %w", record.Identity, err)
	}
	s.known.Lock()
	defer s.known.Unlock()
	s.set(stored)
	return nil
}

// replace writes a file atomically.
func (s *Store) replace(name string, data []byte) error {
	unfinished := name + newSuffix
	err := s.folder.write(unfinished, data)
	if err == nil {
		err = s.folder.rename(unfinished, name)
	}
	if err != nil {
		// It may be that nothing was created.
		if removing := s.folder.remove(unfinished); !errors.Is(removing, fs.ErrNotExist) {
			err = errors.Join(err, removing)
		}
		return err
	}
	return s.folder.sync()
}
