// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import "fmt"

// NestedMountError means that something is mounted below the volume's root. It was not changed.
type NestedMountError struct {
	// Path is where.
	Path string
}

var _ error = (*NestedMountError)(nil)

func (e *NestedMountError) Error() string {
	return fmt.Sprintf("something is mounted at %s, inside the volume: unmount it", e.Path)
}

// StillWrittenError means that files appear in the volume as fast as they are deleted.
type StillWrittenError struct {
	// Path is the volume's root, What something that is left, relative to it; empty if the
	// clean gave up during a walk.
	Path, What string
}

var _ error = (*StillWrittenError)(nil)

func (e *StillWrittenError) Error() string {
	if e.What == "" {
		return e.Path + " is written to while it is being cleaned"
	}
	return fmt.Sprintf("%s is written to while it is being cleaned: %s is back", e.Path, e.What)
}

// NotEmptyError means that a cleaning command succeeded and left entries.
type NotEmptyError struct {
	// Path is the volume's root, What something that is left, relative to it.
	Path, What string
}

var _ error = (*NotEmptyError)(nil)

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("the command left %s in %s", e.What, e.Path)
}

// ReplacedError means that another directory or mount is at the volume's path than when the Root
// was opened.
type ReplacedError struct {
	Path string
}

var _ error = (*ReplacedError)(nil)

func (e *ReplacedError) Error() string {
	return e.Path + " was replaced meanwhile"
}
