// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// foreignLimit is how many entries created since a walk began it removes before it gives
	// up.
	foreignLimit = 2_000
	// contestedLimit is how many entries may vanish, be exchanged or be filled again
	// under its hands.
	contestedLimit = 500
	// clockSlack is how far the clock may have been put back for an inode that was
	// changed "after now" to be taken for an old one.
	clockSlack = 10 * time.Second
)

// ledger accounts for a walk's entries, to detect concurrent writers. Every entry that the
// walk finds costs one. An inode that was last changed before the walk began pays for as many
// entries as it has links; once one of them is unlinked, created, linked or renamed, its ctime
// is newer and it pays for none. As the number of old inodes is limited, and none can be
// created, a walk that never ends exceeds the limit.
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

// moved accounts for a directory that the walk has moved, and will find again with a newer
// ctime.
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
