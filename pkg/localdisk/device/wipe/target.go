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
	// Verify returns an error if the open device is not the one to be cleaned. It is required,
	// and is called before anything is changed, and again after a command. It must neither
	// close nor keep the file.
	Verify func(*os.File) error
}
