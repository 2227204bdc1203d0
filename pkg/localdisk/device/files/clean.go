// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/command"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	// Method is what Clean calls itself in its progress.
	Method = "delete"

	// maxPasses is how often the volume is walked before it counts as still being written.
	maxPasses = 5
	// progressEvery is the interval of progress reports.
	progressEvery = time.Second

	lostAndFound = "lost+found"
)

// Clean deletes everything below the root, except lost+found in the root of an ext file
// system, which is emptied and reset. The root itself keeps owner, mode and attributes (see
// Restore), but flags that make it immutable, append-only or a read-only subvolume are
// cleared. When Clean returns nil, the deletion is on disk.
//
// progress is called about once a second, and at the end: Done counts the freed bytes of
// regular files with one link; Total is unknown. Its error ends the clean, as the end of ctx
// does after the current system call. There is no Step: an interrupted clean starts again,
// with less to delete.
//
// Errors are NestedMountError, ErrStillWritten and ErrReplaced; others name the path that
// could not be deleted. After any error some files may have been deleted.
func (r *Root) Clean(ctx context.Context, progress func(disk.Progress) error) error {
	return r.do(func(root int) error {
		if err := r.checkMounts(root); err != nil {
			return err
		}
		if err := unlockSubvolume(root); err != nil {
			return fmt.Errorf("make subvolume %s writable: %w", r.path, err)
		}
		if err := unlock(root); err != nil {
			return fmt.Errorf("clear flags of %s: %w", r.path, err)
		}
		t := &reporter{progress: progress, every: progressEvery, last: time.Now()}
		if err := r.passes(ctx, root, t); err != nil {
			return err
		}
		if err := flush(root, r.path); err != nil {
			return err
		}
		return t.report()
	})
}

// Run cleans the volume by a configured command: an absolute path and arguments. The command
// has the root's path in LOCAL_PV_FILESYSTEM. Nothing is open in the volume while it runs. The
// command and its process group are killed when ctx ends, and what remains of the group when
// the command exits or the provisioner does.
//
// Afterwards the root is verified again and must be empty, as by Empty; else
// that is an error. Then everything is synced. Mounts below the root are searched for before, as
// by Clean. The error of a failed command has the end of its output.
func (r *Root) Run(ctx context.Context, args []string) error {
	if len(args) == 0 || !filepath.IsAbs(args[0]) {
		return fmt.Errorf("clean %s: command %q is not an absolute path", r.path, args)
	}
	if err := r.do(r.checkMounts); err != nil {
		return err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "LOCAL_PV_FILESYSTEM="+r.path)
	if err := command.Run(ctx, cmd); err != nil {
		return fmt.Errorf("clean %s by %q: %w", r.path, args, err)
	}
	if err := r.do(func(root int) error { return flush(root, r.path) }); err != nil {
		return err
	}
	content, what, err := r.Empty(ctx)
	if err == nil && content != disk.ContentNone {
		err = fmt.Errorf("the command left %s in %s", what, r.path)
	}
	return err
}

// passes walks the volume until nothing is left.
func (r *Root) passes(ctx context.Context, root int, t *reporter) error {
	keep, err := keepsLostAndFound(root)
	if err != nil {
		return fmt.Errorf("examine the file system of %s: %w", r.path, err)
	}
	left := ""
	var refused error
	for range maxPasses {
		w := &walk{root: r, reporter: t, keep: keep, ledger: ledger{began: time.Now()}, buf: make([]byte, namesBytes)}
		if err := w.run(ctx, root); err != nil {
			return err
		}
		if left, err = firstEntry(root); err != nil {
			return fmt.Errorf("list what is left in %s: %w", r.path, err)
		}
		if left == "" {
			return nil
		}
		refused = w.refused
	}
	if refused != nil {
		return refused
	}
	return fmt.Errorf("%s %w: %s is back", r.path, ErrStillWritten, left)
}

// keepsLostAndFound reports whether lost+found in this directory is the file system's, and not
// a user's file of that name.
func keepsLostAndFound(root int) (bool, error) {
	const extRootInode = 2
	ext, err := isOn(root, unix.EXT4_SUPER_MAGIC)
	if err != nil || !ext {
		return false, err
	}
	st, err := statDescriptor(root)
	return st.Ino == extRootInode, err
}

// flush writes the file system to the disk.
func flush(root int, path string) error {
	if _, err := uninterrupted(func() (int, error) { return 0, unix.Syncfs(root) }); err != nil {
		return fmt.Errorf("write %s to the disk: %w", path, err)
	}
	return nil
}

// reporter reports progress.
type reporter struct {
	progress func(disk.Progress) error
	every    time.Duration
	last     time.Time
	freed    int64
}

// countFreed adds the bytes of an entry that has been unlinked.
func (t *reporter) countFreed(st *unix.Statx_t) {
	const blockBytes = 512 // of stat(2), independent of the file system's
	if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink == 1 {
		t.freed += int64(st.Blocks) * blockBytes
	}
}

// reportIfDue reports progress if the interval has passed.
func (t *reporter) reportIfDue(now time.Time) error {
	if now.Sub(t.last) < t.every {
		return nil
	}
	t.last = now
	return t.report()
}

func (t *reporter) report() error {
	if t.progress == nil {
		return nil
	}
	if err := t.progress(disk.Progress{Method: Method, Done: t.freed}); err != nil {
		return fmt.Errorf("report progress: %w", err)
	}
	return nil
}
