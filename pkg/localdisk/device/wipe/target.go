// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"os"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Target is a device to be cleaned, and how.
type Target struct {
	// Device is the path of the device's node, symlinks resolved.
	Device string
	// Bytes is the size that the device has to have.
	Bytes  int64
	Mode   disk.Mode
	Method Method
	// Step is where an earlier run got to: the last Progress.Step, if any.
	Step string
	// Verify says by an error that the open device is not the one to be cleaned. It is
	// required, and is called before anything is changed, and after a command too. The
	// file is the run's: Verify neither closes nor keeps it.
	Verify func(*os.File) error
}
