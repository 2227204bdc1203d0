// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package files

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// foreignLimit is how many entries, made since a walk began, it removes before it
	// gives up.
	foreignLimit = 2_000
	// contestedLimit is how many entries may vanish, be exchanged or be filled again
	// under its hands.
	contestedLimit = 500
	// clockSlack is how far the clock may have been put back for an inode that was
	// changed "after now" to be taken for an old one.
	clockSlack = 10 * time.Second
)

// ledger keeps account of a walk's entries, to tell whether somebody adds some.
// Every entry that the walk meets costs one. An inode that was last changed before
// the walk began is good for as many entries as it has links; once the walk has
// unlinked one of them, or anybody has made, linked or renamed it, its ctime is
// newer and it is good for none. As there are only so many old inodes, and nobody
// can make one, a walk that never ends exceeds the limit.
type ledger struct {
	began     time.Time
	foreign   int64
	contested int
}

// meet enters an entry that was just looked at.
func (l *ledger) meet(st *unix.Statx_t, now time.Time) {
	l.foreign++
	if !l.old(st, now) {
		return
	}
	if isDirectory(st) {
		l.foreign-- // the links of a directory are its own and its children's
		return
	}
	l.foreign -= int64(st.Nlink)
}

// old reports whether an inode was last changed before the walk began.
func (l *ledger) old(st *unix.Statx_t, now time.Time) bool {
	changed := time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec))
	return changed.Before(l.began) || changed.After(now.Add(clockSlack))
}

// moved enters a directory that the walk has moved, and that it will meet again with
// a newer ctime.
func (l *ledger) moved(st *unix.Statx_t, now time.Time) {
	if l.old(st, now) {
		l.foreign--
	}
}

// made enters a directory that the walk has made, and that it will meet.
func (l *ledger) made() { l.foreign-- }

// contest enters an entry that somebody else has taken away, exchanged or filled.
func (l *ledger) contest() { l.contested++ }

// exceeded says that somebody writes, and too fast.
func (l *ledger) exceeded() bool {
	return l.foreign > foreignLimit || l.contested > contestedLimit
}
