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
