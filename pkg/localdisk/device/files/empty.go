// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Empty returns whether the volume holds anything but an empty lost+found, and the name of
// something it holds, relative to the root. After an error the content is unknown.
func (r *Root) Empty(ctx context.Context) (disk.Content, string, error) {
	content, what := disk.ContentUnknown, ""
	err := r.do(func(root int) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var err error
		if what, err = firstEntry(root); err != nil {
			return fmt.Errorf("list %s: %w", r.path, err)
		}
		content = disk.ContentNone
		if what != "" {
			content = disk.ContentSome
		}
		return nil
	})
	return content, what, err
}

// firstEntry returns the name of something in the root; empty if there is at most an empty
// lost+found.
func firstEntry(root int) (string, error) {
	name, lost, err := first(root, lostAndFound)
	if err != nil || name != "" || !lost {
		return name, err
	}
	fd, err := openBeneath(root, lostAndFound, directoryFlags)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT):
		return "", nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return lostAndFound, nil
	default:
		return "", err
	}
	defer unix.Close(fd)
	if name, _, err = first(fd, ""); err != nil || name == "" {
		return "", err
	}
	return lostAndFound + "/" + name, nil
}

// first returns the first name of a directory other than but, and whether but was among those
// before it.
func first(dir int, but string) (name string, met bool, err error) {
	if _, err := unix.Seek(dir, 0, unix.SEEK_SET); err != nil {
		return "", false, err
	}
	buf := make([]byte, 4096)
	for {
		names, err := readNames(dir, buf)
		if err != nil || len(names) == 0 {
			return "", met, err
		}
		for _, n := range names {
			if n != but {
				return n, met, nil
			}
			met = true
		}
	}
}
