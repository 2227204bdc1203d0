// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import "fmt"

// NestedMountError says that something is mounted below the volume's root. What is
// mounted has not been touched.
type NestedMountError struct {
	// Path is where.
	Path string
}

var _ error = (*NestedMountError)(nil)

func (e *NestedMountError) Error() string {
	return fmt.Sprintf("something is mounted at %s, inside the volume: unmount it", e.Path)
}

// StillWrittenError says that files appear in the volume as fast as they are
// deleted.
type StillWrittenError struct {
	// Path is the volume's root, What something that is left, relative to it; empty
	// if the clean gave up in the midst of it.
	Path, What string
}

var _ error = (*StillWrittenError)(nil)

func (e *StillWrittenError) Error() string {
	if e.What == "" {
		return fmt.Sprintf("somebody writes in %s while it is being cleaned", e.Path)
	}
	return fmt.Sprintf("somebody writes in %s while it is being cleaned: %s is there again", e.Path, e.What)
}

// NotEmptyError says that a cleaning command ended well and left something.
type NotEmptyError struct {
	// Path is the volume's root, What something that is left, relative to it.
	Path, What string
}

var _ error = (*NotEmptyError)(nil)

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("the command left %s in %s", e.What, e.Path)
}

// ReplacedError says that another directory, or another mount, is at the volume's
// path than when the Root was opened.
type ReplacedError struct {
	Path string
}

var _ error = (*ReplacedError)(nil)

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("what lies at %s is not what was there a moment ago", e.Path)
}
