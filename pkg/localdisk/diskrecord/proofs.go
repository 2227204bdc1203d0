// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"encoding/json"
	"fmt"
	"maps"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// proofsFile has the blank proofs of all disks. It is no record: without it devices are only
// read again from the first byte.
const proofsFile = "blank-proofs.json"

// proofs is the content of proofsFile.
type proofs struct {
	// SHA256 is that of the bytes of Proofs as they are in the file.
	SHA256 string          `json:"sha256"`
	Proofs json.RawMessage `json:"proofs"`
}

// BlankProofs returns what PutBlankProofs wrote last, also before a restart; nothing if
// that cannot be read. Whether a proof still holds is for the caller to check.
func (s *Store) BlankProofs() map[disk.Identity]disk.BlankProof {
	found := map[disk.Identity]disk.BlankProof{}
	data, err := s.folder.read(proofsFile)
	if err != nil {
		return found
	}
	var file proofs
	if err := json.Unmarshal(data, &file); err != nil || file.SHA256 != sum(file.Proofs) {
		return found
	}
	if err := json.Unmarshal(file.Proofs, &found); err != nil || found == nil {
		return map[disk.Identity]disk.BlankProof{}
	}
	maps.DeleteFunc(found, func(_ disk.Identity, p disk.BlankProof) bool { return p.Done < 0 || p.Done > p.Bytes || p.State == "" })
	return found
}

// PutBlankProofs replaces all blank proofs, and returns once they are on disk.
func (s *Store) PutBlankProofs(all map[disk.Identity]disk.BlankProof) error {
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode blank proofs: %w", err)
	}
	data, err := json.Marshal(proofs{SHA256: sum(text), Proofs: text})
	if err != nil {
		return fmt.Errorf("encode blank proofs: %w", err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.replace(proofsFile, append(data, '\n')); err != nil {
		return fmt.Errorf("write blank proofs: %w", err)
	}
	return nil
}
