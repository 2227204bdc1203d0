// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package wipe

import (
	"context"
	"errors"
	"fmt"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Run cleans devices on Linux, and fails elsewhere.
func Run(_ context.Context, t Target, _ func(disk.Progress) error) error {
	return fmt.Errorf("clean %s: %w", t.Device, errors.ErrUnsupported)
}

// Inspect inspects devices on Linux, and fails elsewhere.
func Inspect(_ context.Context, path string, _ disk.Mode) (disk.Content, string, error) {
	return disk.ContentUnknown, "", fmt.Errorf("inspect %s: %w", path, errors.ErrUnsupported)
}
