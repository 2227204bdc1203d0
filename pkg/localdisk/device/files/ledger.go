// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"time"

	"golang.org/x/sys/unix"
)

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
