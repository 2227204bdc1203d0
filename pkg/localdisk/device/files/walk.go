// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// walk goes once through the volume and deletes what it finds, children before their
// directory. It skips what other processes remove or fill meanwhile.
type walk struct {
	root     *Root
	reporter *reporter
	ledger   ledger
	// keep preserves lost+found in the root.
	keep  bool
	stack []*frame
	buf   []byte
	// removed counts entries, see flushEvery.
	removed int
	// refused is why the walk left a directory that is too deep; nil if it left none.
	refused error
}

// flushEvery is after how many removed entries the file system is flushed. Until its journal
// is written the kernel keeps each removed inode in memory, charged to the memory limit of this
// process: a fast disk would fill 64 MiB in seconds.
const flushEvery = 2048

// freed counts a removed entry.
func (w *walk) freed() error {
	if w.removed++; w.removed%flushEvery != 0 {
		return nil
	}
	if err := unix.Syncfs(w.stack[0].fd); err != nil {
		return w.failed("flush", "", err)
	}
	return nil
}

// run walks. The descriptor of the root stays the caller's; all others are closed
// when run returns.
func (w *walk) run(ctx context.Context, root int) error {
	if _, err := unix.Seek(root, 0, unix.SEEK_SET); err != nil {
		return fmt.Errorf("rewind %s: %w", w.root.path, err)
	}
	w.stack = append(w.stack, &frame{fd: root, node: w.root.node})
	defer func() {
		w.stack[0].scratch.close()
		for _, f := range w.stack[1:] {
			f.close()
		}
	}()
	for {
		if err := w.pause(ctx); err != nil {
			return err
		}
		top := w.stack[len(w.stack)-1]
		name, more, err := top.next(w.buf)
		switch {
		case err != nil:
			return w.failed("read directory", "", err)
		case more:
			err = w.entry(top, name)
		case len(w.stack) == 1:
			return nil
		default:
			err = w.leave(top)
		}
		if err != nil {
			return err
		}
	}
}

// pause checks the context and the limits between two entries, and reports progress.
func (w *walk) pause(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("clean %s: %w", w.root.path, context.Cause(ctx))
	}
	if w.ledger.exceeded() {
		return fmt.Errorf("%s %w", w.root.path, ErrStillWritten)
	}
	return w.reporter.reportIfDue(time.Now())
}

// entry processes one name.
func (w *walk) entry(dir *frame, name string) error {
	st, err := statEntry(dir.fd, name)
	if errors.Is(err, unix.ENOENT) {
		w.ledger.contest()
		return nil
	}
	if err != nil {
		return w.failed("examine", name, err)
	}
	w.ledger.examined(&st, time.Now())
	switch {
	case isMount(dir, &st):
		return w.nested(name)
	case isDirectory(&st):
		return w.enter(dir, name, &st)
	default:
		return w.remove(dir, name, &st)
	}
}

// remove unlinks an entry that is not a directory.
func (w *walk) remove(dir *frame, name string, st *unix.Statx_t) error {
	if st.Attributes&attributesLocked != 0 {
		if err := w.unlock(dir, name); err != nil {
			return err
		}
	}
	err := unlink(dir.fd, name, 0)
	if errors.Is(err, unix.EPERM) {
		if err := w.unlock(dir, name); err != nil {
			return err
		}
		err = unlink(dir.fd, name, 0)
	}
	if err == nil {
		w.reporter.countFreed(st)
		return w.freed()
	}
	return w.notRemoved(name, err)
}

// notRemoved returns why a name could not be removed; nil if another walk should try.
func (w *walk) notRemoved(name string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		w.ledger.contest()
		return nil
	case errors.Is(err, unix.EBUSY):
		return w.nested(name)
	default:
		return w.failed("delete", name, err)
	}
}

// unlock clears the flags of a directory and of an entry in it.
func (w *walk) unlock(dir *frame, name string) error {
	if err := unlock(dir.fd); err != nil {
		return w.failed("clear flags of the directory of", name, err)
	}
	err := unlockEntry(dir.fd, name)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP):
		return nil // unlinking shows if it was exchanged
	case errors.Is(err, unix.EXDEV):
		return w.crossed(dir, name)
	default:
		return w.failed("clear flags of", name, err)
	}
}

// enter descends into a directory, unless it is so deep that it is moved up.
func (w *walk) enter(dir *frame, name string, st *unix.Statx_t) error {
	if w.tooDeep(dir, nodeOf(st)) {
		if done, err := w.moveUp(dir, name, st); done || err != nil {
			return err
		}
	}
	return w.open(dir, name)
}

// open descends into a directory.
func (w *walk) open(dir *frame, name string) error {
	fd, err := openBeneath(dir.fd, name, directoryFlags)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		w.ledger.contest()
		return nil
	case errors.Is(err, unix.EXDEV):
		return w.crossed(dir, name)
	default:
		return w.failed("open", name, err)
	}
	child := &frame{name: name, fd: fd, top: dir.top, kept: w.keep && len(w.stack) == 1 && name == lostAndFound}
	w.stack = append(w.stack, child)
	st, err := statDescriptor(fd)
	if err != nil {
		return w.failed("examine", "", err)
	}
	child.node = nodeOf(&st)
	if child.node.mount != dir.node.mount {
		return w.nested("")
	}
	if st.Attributes&attributesLocked != 0 {
		if err := unlock(fd); err != nil {
			return w.failed("clear flags of", "", err)
		}
	}
	if isSubvolume(dir.node, child.node) {
		return w.destroy(dir, child)
	}
	return nil
}

// crossed handles an entry that the kernel reports to leave the file system.
func (w *walk) crossed(dir *frame, name string) error {
	st, err := statEntry(dir.fd, name)
	switch {
	case err == nil && isMount(dir, &st):
		return w.nested(name)
	case err == nil, errors.Is(err, unix.ENOENT): // it was moved while it was opened
		w.ledger.contest()
		return nil
	default:
		return w.failed("examine", name, err)
	}
}

// isMount reports whether something is mounted on an entry of a directory.
func isMount(dir *frame, st *unix.Statx_t) bool {
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 || st.Mnt_id != dir.node.mount
}

// destroy removes a subvolume of btrfs as a whole. If that cannot be, it is made
// writable and walked as any directory.
func (w *walk) destroy(dir, child *frame) error {
	// Destroying it would unmount what is mounted in it.
	if err := w.root.checkOwnMounts(w.stack[0].fd); err != nil {
		return err
	}
	child.subvolume, child.top = true, len(w.stack)-1
	if err := destroySubvolume(dir.fd, child.name); err == nil {
		w.pop()
		return nil
	}
	if err := unlockSubvolume(child.fd); err != nil {
		return w.failed("make subvolume writable:", "", err)
	}
	return nil
}

// leave ascends from a directory that was emptied, and removes it.
func (w *walk) leave(child *frame) error {
	parent := w.stack[len(w.stack)-2]
	parent.left = parent.left || child.left
	if child.kept {
		if err := resetDirectory(child.fd); err != nil {
			return w.failed("reset", "", err)
		}
		w.pop()
		return nil
	}
	w.pop()
	if child.left {
		return nil
	}
	err := unlink(parent.fd, child.name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EPERM) {
		if err := w.unlock(parent, child.name); err != nil {
			return err
		}
		err = unlink(parent.fd, child.name, unix.AT_REMOVEDIR)
	}
	if err != nil && child.subvolume {
		err = destroySubvolume(parent.fd, child.name)
	}
	if err == nil {
		return w.freed()
	}
	return w.notRemoved(child.name, err)
}

func (w *walk) pop() {
	last := len(w.stack) - 1
	w.stack[last].close()
	w.stack = w.stack[:last]
}

// nested returns the error that something is mounted on an entry of the deepest directory, or
// on that directory itself if name is empty.
func (w *walk) nested(name string) error {
	return &NestedMountError{Path: filepath.Join(w.root.path, relative(w.stack, name))}
}

// failed returns an error with the path of an entry, as nested does.
func (w *walk) failed(verb, name string, err error) error {
	return fmt.Errorf("%s %q in %s: %w", verb, relative(w.stack, name), w.root.path, err)
}

const (
	// foreignLimit is how many entries created since a walk began it removes before it gives up.
	foreignLimit = 2_000
	// contestedLimit is how many entries other processes may remove, exchange or fill again
	// during a walk.
	contestedLimit = 500
	// clockSlack: an inode that was changed further in the future is an old one, and the clock
	// was set back.
	clockSlack = 10 * time.Second
)

// ledger counts the entries that a walk finds and that the volume did not have when the walk
// began, to detect concurrent writers. Every entry adds one. An inode that was last changed
// before the walk began subtracts as many as it has links; once one of them is unlinked,
// created, linked or renamed, its ctime is newer and it subtracts none. As the number of old
// inodes is limited, and none can be created, a walk that never ends exceeds the limit.
type ledger struct {
	began     time.Time
	foreign   int64
	contested int
}

// examined accounts for an entry that was just examined.
func (l *ledger) examined(st *unix.Statx_t, now time.Time) {
	l.foreign++
	if !l.old(st, now) {
		return
	}
	if isDirectory(st) {
		l.foreign-- // the links of a directory are itself and its children's
		return
	}
	l.foreign -= int64(st.Nlink)
}

// old reports whether an inode was last changed before the walk began.
func (l *ledger) old(st *unix.Statx_t, now time.Time) bool {
	changed := time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec))
	return changed.Before(l.began) || changed.After(now.Add(clockSlack))
}

// moved accounts for a directory that the walk has moved, and will find again with a newer ctime.
func (l *ledger) moved(st *unix.Statx_t, now time.Time) {
	if l.old(st, now) {
		l.foreign--
	}
}

// made accounts for a directory that the walk has created and will find.
func (l *ledger) made() { l.foreign-- }

// contest accounts for an entry that another process removed, exchanged or filled.
func (l *ledger) contest() { l.contested++ }

// exceeded reports whether other processes write too fast.
func (l *ledger) exceeded() bool {
	return l.foreign > foreignLimit || l.contested > contestedLimit
}
