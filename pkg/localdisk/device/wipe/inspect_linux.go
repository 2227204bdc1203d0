// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Inspect checks whether a block device is as a clean for a mode must leave it, and describes
// what was found if not: it must have no known signature, and for mode Block the first and the
// last MiB must be zero. That proves nothing of a device that was not cleaned; see Sample and
// ProveBlank. It reads past the page cache and changes nothing; the device may be in use.
// Anything but a block device is a disk.Problem, SpecialFile, and is not opened.
func Inspect(ctx context.Context, path string, mode disk.Mode) (disk.Content, string, error) {
	d, err := openDevice(path, unix.O_RDONLY)
	if err != nil {
		return disk.ContentUnknown, "", fmt.Errorf("inspect: %w", err)
	}
	defer d.close()
	what, err := d.inspect(ctx, mode)
	switch {
	case err != nil:
		return disk.ContentUnknown, "", err
	case what != "":
		return disk.ContentSome, what, nil
	default:
		return disk.ContentNone, "", nil
	}
}

func (d *device) inspect(ctx context.Context, mode disk.Mode) (string, error) {
	what, err := inspect(newImage(reader{ctx, d}, d.size), mode)
	if err != nil {
		return "", fmt.Errorf("inspect %s: %w", d.path, err)
	}
	return what, nil
}

// reader reads a device until its context ends.
type reader struct {
	ctx context.Context
	d   *device
}

func (r reader) ReadAt(p []byte, at int64) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.d.ReadAt(p, at)
}
