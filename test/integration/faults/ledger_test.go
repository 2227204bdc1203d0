// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// checkEvery is the number of claim events between two checks of the
// invariants of the scheduling cache.
const checkEvery = 25

// ledger follows every state of claims and volumes, in the order in which the
// API server stored them, and records each violation of an invariant, such as
// a claim that is Lost. Safe for concurrent use.
type ledger struct {
	check func() error // the scheduling cache's

	mu       sync.Mutex
	volumeOf map[types.UID]string // by claim that exists and names a volume
	claimOf  map[string]types.UID
	claimant map[string]types.UID // by volume, the UID of claimRef; "": none
	seen     map[string][]string  // recent states of claims and volumes, by name
	events   int
	checks   int
	mistakes []string
}

func newLedger(check func() error) *ledger {
	return &ledger{
		check:    check,
		volumeOf: map[types.UID]string{}, claimOf: map[string]types.UID{}, claimant: map[string]types.UID{}, seen: map[string][]string{},
	}
}

// seenStates is how many states of an object the ledger remembers.
const seenStates = 12

// remember records the state of an object.
func (l *ledger) remember(name, format string, args ...any) {
	l.seen[name] = append(l.seen[name], time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	l.seen[name] = l.seen[name][max(0, len(l.seen[name])-seenStates):]
}

func (l *ledger) note(format string, args ...any) {
	l.mistakes = append(l.mistakes, fmt.Sprintf(format, args...))
}

func (l *ledger) claimSeen(claim *v1.PersistentVolumeClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(claim.Name, "claim %s, version %s: volume %q, %s, %v", claim.UID, claim.ResourceVersion, claim.Spec.VolumeName, claim.Status.Phase, claim.Annotations)
	if claim.Status.Phase == v1.ClaimLost {
		l.note("claim %s has lost volume %s:\n%s", claim.Name, claim.Spec.VolumeName,
			strings.Join(append(slices.Clone(l.seen[claim.Name]), l.seen[claim.Spec.VolumeName]...), "\n"))
	}
	volume, before := claim.Spec.VolumeName, l.volumeOf[claim.UID]
	switch owner := l.claimOf[volume]; {
	case before != "" && volume != before:
		l.note("claim %s named volume %s and now names %q", claim.Name, before, volume)
	case volume == "" || volume == before:
	case owner != "":
		l.note("volume %s was given to claim %s (%s) while claim %s had it", volume, claim.Name, claim.UID, owner)
	default:
		l.volumeOf[claim.UID], l.claimOf[volume] = volume, claim.UID
	}
	l.countLocked()
}

func (l *ledger) claimGone(claim *v1.PersistentVolumeClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claimOf, l.volumeOf[claim.UID])
	delete(l.volumeOf, claim.UID)
	l.countLocked()
}

func (l *ledger) countLocked() {
	if l.events++; l.events%checkEvery != 0 {
		return
	}
	l.checks++
	if err := l.check(); err != nil {
		l.note("cache: %v", err)
	}
}

func (l *ledger) volumeSeen(volume *v1.PersistentVolume) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var now types.UID
	if volume.Spec.ClaimRef != nil {
		now = volume.Spec.ClaimRef.UID
	}
	l.remember(volume.Name, "volume %s, version %s: claim %q, %s, %v", volume.UID, volume.ResourceVersion, now, volume.Status.Phase, volume.Annotations)
	if before := l.claimant[volume.Name]; before != "" && now != "" && before != now {
		l.note("volume %s went from claim %s to claim %s without being free", volume.Name, before, now)
	}
	l.claimant[volume.Name] = now
}

func (l *ledger) volumeGone(volume *v1.PersistentVolume) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(volume.Name, "volume %s is deleted", volume.UID)
	delete(l.claimant, volume.Name)
}

// result returns the recorded counts and mistakes.
func (l *ledger) result() (events, checks int, mistakes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events, l.checks, slices.Clone(l.mistakes)
}
