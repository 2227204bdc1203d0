// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskrecord

import (
	"errors"
	"fmt"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

var (
	// ErrNewer is why a file of a later release is among the damaged ones. It is
	// whole, and this release would lose what it does not understand.
	ErrNewer = errors.New("written by a newer release of Stowage")
	// ErrOlder is why a file of an earlier release counts as damaged: it does not name its
	// cluster.
	ErrOlder = errors.New("written in an earlier form, which does not name the cluster")
	// ErrLocked means that another provisioner has the folder.
	ErrLocked = errors.New("another provisioner on this node uses it")
)

// Damaged is a file that should hold a record and cannot be read, or not be
// understood. It stays in the folder until an administrator moves it away, and
// the store refuses to write or delete the record of the same identity.
type Damaged struct {
	// File is the name of the file in the folder: fileName of the disk's identity.
	File string
	// Identity is the disk's, if the file still has it.
	Identity disk.Identity
	// HostPath is the path that the file still has, or empty. It may be wrong, since the file
	// is damaged.
	HostPath string
	// Err is what is wrong with the file.
	Err error
}

var _ error = (*Damaged)(nil)

// Error names the file and what to do about it.
func (d *Damaged) Error() string {
	if errors.Is(d.Err, ErrNewer) {
		return fmt.Sprintf("record %s: %v; run that release, or move the file away", d.File, d.Err)
	}
	if errors.Is(d.Err, ErrOlder) {
		return fmt.Sprintf("record %s: %v; remove the file, and the disk is treated as one that was never published (existingData)", d.File, d.Err)
	}
	return fmt.Sprintf("record %s cannot be read: %v; the file is kept; if it is moved away, the disk counts as never published", d.File, d.Err)
}

// Unwrap returns what is wrong with the file.
func (d *Damaged) Unwrap() error { return d.Err }
