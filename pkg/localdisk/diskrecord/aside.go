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
// byte; without healthFile a failing disk counts as healthy until it shows the next sign.
const (
	proofsFile = "blank-proofs.json"
	healthFile = "health.json"
)

// aside is the content of such a file.
type aside struct {
	// SHA256 is that of the bytes of the other field as they are in the file.
	SHA256 string          `json:"sha256"`
	Proofs json.RawMessage `json:"proofs,omitempty"`
	Health json.RawMessage `json:"health,omitempty"`
}

// BlankProofs returns what PutBlankProofs wrote last, also before a restart; nothing if
// that cannot be read. Whether a proof still holds is for the caller to check.
func (s *Store) BlankProofs() map[disk.Identity]disk.BlankProof {
	found := readAside[disk.BlankProof](s, proofsFile, func(file *aside) json.RawMessage { return file.Proofs })
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
	return readAside[disk.Health](s, healthFile, func(file *aside) json.RawMessage { return file.Health })
}

// PutHealth replaces the health of all disks, and returns once it is on disk.
func (s *Store) PutHealth(all map[disk.Identity]disk.Health) error {
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode the health of disks: %w", err)
	}
	return s.putAside(healthFile, aside{SHA256: sum(text), Health: text})
}

// readAside returns what is in a file, by disk; nothing if it cannot be read.
func readAside[T any](s *Store, name string, part func(*aside) json.RawMessage) map[disk.Identity]T {
	found := map[disk.Identity]T{}
	data, err := s.folder.read(name)
	if err != nil {
		return found
	}
	var file aside
	if err := json.Unmarshal(data, &file); err != nil || file.SHA256 != sum(part(&file)) {
		return found
	}
	if err := json.Unmarshal(part(&file), &found); err != nil || found == nil {
		return map[disk.Identity]T{}
	}
	return found
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
