// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Prune removes a file, or a folder and its subfolders, deepest first. Files in a folder are
// left to their owner: those of a control group are removed with it. A missing path is no
// error.
func Prune(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := Prune(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove folder %s: %w", path, err)
	}
	return nil
}
