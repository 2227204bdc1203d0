// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the one lease of a cluster, in memory.
type lease struct {
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord
	// broken fails all writes.
	broken bool
}

// holder is the holder of the lease; empty without one.
func (l *lease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return ""
	}
	return l.record.HolderIdentity
}

func (l *lease) cutOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = true
}

// lock is a replica's view of the lease.
type lock struct {
	*lease
	name string
}

func (l lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), "lease")
	}
	record := *l.record
	text, err := json.Marshal(record)
	return &record, text, err
}

func (l lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return errors.New("no connection")
	}
	l.record = &r
	return nil
}

func (l lock) RecordEvent(string) {}
func (l lock) Identity() string   { return l.name }
func (l lock) Describe() string   { return "lease" }

// replica competes for a lease until its context ends.
type replica struct {
	stop    context.CancelFunc
	works   chan struct{} // closed when it begins to work
	stopped chan struct{} // closed when its work has ended
	ended   chan error
}

// compete starts a replica whose work does not end before its context, or at once with an
// error that is not nil.
func compete(t *testing.T, l *lease, name string, fails error) *replica {
	ctx, stop := context.WithCancel(t.Context())
	r := &replica{stop: stop, works: make(chan struct{}), stopped: make(chan struct{}), ended: make(chan error, 1)}
	config := Config{
		Name: "test",
		Work: func(ctx context.Context) error {
			close(r.works)
			defer close(r.stopped)
			if fails == nil {
				<-ctx.Done()
			}
			return fails
		},
	}
	config.Election.SetDefaults(true, "", "")
	go func() { r.ended <- run(ctx, config, lock{l, name}) }()
	return r
}

// is reports whether a channel is closed.
func is(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestOneLeads: the second replica works when the first has released the lease, which it does
// after its work has ended.
func TestOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		first := compete(t, l, "first", nil)
		<-first.works
		second := compete(t, l, "second", nil)
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time
		if is(second.works) || l.holder() != "first" {
			t.Fatal("the second replica works beside the first")
		}
		first.stop()
		if err := <-first.ended; err != nil || !is(first.stopped) || l.holder() == "first" {
			t.Errorf("error %v after a requested end, work ended is %t, the lease is held by %q", err, is(first.stopped), l.holder())
		}
		given := time.Now()
		<-second.works
		if took := time.Since(given); took > 5*time.Second {
			t.Errorf("a released lease was acquired after %s", took)
		}
		second.stop()
		if err := <-second.ended; err != nil {
			t.Error(err)
		}
	})
}

// TestLeaseIsLost: a replica that cannot renew the lease stops its work before another one may
// begin, and returns ErrLeaseLost.
func TestLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		r := compete(t, l, "first", nil)
		<-r.works
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time
		l.cutOff()
		cut := time.Now()
		<-r.stopped
		if took := time.Since(cut); took > 15*time.Second {
			t.Errorf("it worked for %s without the lease", took)
		}
		if err := <-r.ended; !errors.Is(err, ErrLeaseLost) {
			t.Errorf("error %v, want that the lease was lost", err)
		}
	})
}

// TestWorkThatFails: the lease is released, and the error is the work's.
func TestWorkThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, broken := &lease{}, errors.New("broken")
		r := compete(t, l, "first", broken)
		if err := <-r.ended; !errors.Is(err, broken) || l.holder() != "" {
			t.Errorf("error %v, want that of the work; the lease is held by %q", err, l.holder())
		}
	})
}

// TestNeverLeads: a standby replica ends without an error and never runs its work.
func TestNeverLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lease{}
		first := compete(t, l, "first", nil)
		<-first.works
		second := compete(t, l, "second", nil)
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time
		second.stop()
		if err := <-second.ended; err != nil || is(second.works) || l.holder() != "first" {
			t.Errorf("error %v, worked is %t, the lease is held by %q", err, is(second.works), l.holder())
		}
		first.stop()
		if err := <-first.ended; err != nil {
			t.Error(err)
		}
	})
}
