// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"encoding/json"
	"fmt"
	"maps"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// The files that are no records: without proofsFile devices are only read again from the first
// byte; without healthFile a failing disk counts as healthy until it shows the next sign; without
// slotsFile LocalDisks behind a long gap are not found.
const (
	proofsFile = "blank-proofs.json"
	healthFile = "health.json"
	slotsFile  = "disk-slots.json"
)

// aside is the content of such a file.
type aside struct {
	// SHA256 is that of the bytes of the other field as they are in the file.
	SHA256 string          `json:"sha256"`
	Proofs json.RawMessage `json:"proofs,omitempty"`
	Health json.RawMessage `json:"health,omitempty"`
	Slots  json.RawMessage `json:"slots,omitempty"`
}

// BlankProofs returns what PutBlankProofs wrote last, also before a restart; nothing if
// that cannot be read. Whether a proof still holds is for the caller to check.
func (s *Store) BlankProofs() map[disk.Identity]disk.BlankProof {
	found := readByDisk[disk.BlankProof](s, proofsFile, func(file *aside) json.RawMessage { return file.Proofs })
	maps.DeleteFunc(found, func(_ disk.Identity, p disk.BlankProof) bool { return p.Done < 0 || p.Done > p.Bytes || p.State == "" })
	return found
}

// PutBlankProofs replaces all blank proofs, and returns once they are on disk.
func (s *Store) PutBlankProofs(all map[disk.Identity]disk.BlankProof) error {
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode blank proofs: %w", err)
	}
	return s.putAside(proofsFile, aside{SHA256: sum(text), Proofs: text})
}

// Health returns what PutHealth wrote last, also before a restart; nothing if that cannot be read.
func (s *Store) Health() map[disk.Identity]disk.Health {
	return readByDisk[disk.Health](s, healthFile, func(file *aside) json.RawMessage { return file.Health })
}

// PutHealth replaces the health of all disks, and returns once it is on disk.
func (s *Store) PutHealth(all map[disk.Identity]disk.Health) error {
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode the health of disks: %w", err)
	}
	return s.putAside(healthFile, aside{SHA256: sum(text), Health: text})
}

// DiskSlots returns what PutDiskSlots wrote last, also before a restart; 0 if that cannot be read.
func (s *Store) DiskSlots() int {
	var slots int
	if !s.readAside(slotsFile, func(file *aside) json.RawMessage { return file.Slots }, &slots) {
		return 0
	}
	return slots
}

// PutDiskSlots replaces the number below which the slots of all LocalDisks of the node are, and
// returns once it is on disk.
func (s *Store) PutDiskSlots(slots int) error {
	text, err := json.Marshal(slots)
	if err != nil {
		return fmt.Errorf("encode the number of slots: %w", err)
	}
	return s.putAside(slotsFile, aside{SHA256: sum(text), Slots: text})
}

// readByDisk returns what is in a file, by disk; nothing if it cannot be read.
func readByDisk[T any](s *Store, name string, part func(*aside) json.RawMessage) map[disk.Identity]T {
	found := map[disk.Identity]T{}
	if !s.readAside(name, part, &found) || found == nil {
		return map[disk.Identity]T{}
	}
	return found
}

// readAside reads a part of a file, and returns whether that is possible.
func (s *Store) readAside(name string, part func(*aside) json.RawMessage, into any) bool {
	data, err := s.folder.read(name)
	if err != nil {
		return false
	}
	var file aside
	if err := json.Unmarshal(data, &file); err != nil || file.SHA256 != sum(part(&file)) {
		return false
	}
	return json.Unmarshal(part(&file), into) == nil
}

func (s *Store) putAside(name string, file aside) error {
	data, err := json.Marshal(file)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.replace(name, append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
