// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeservice

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Operations on one volume run one at a time. One that hangs holds up no other volume, and a caller no longer
// than its context.
func TestFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f files
		release := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.do(ctx, "a", func() error { <-release; return nil }); err == nil || !strings.Contains(err.Error(), "does not respond") {
			t.Errorf("a hung operation: error %v", err)
		}
		other := errors.New("other")
		if err := f.do(t.Context(), "b", func() error { return other }); !errors.Is(err, other) {
			t.Errorf("another volume: error %v, want that of the operation", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.do(ctx, "a", func() error { t.Error("two operations run at a time"); return nil }); err == nil || !strings.Contains(err.Error(), "does not end") {
			t.Errorf("the same volume: error %v", err)
		}
		began := time.Now()
		f.wait(time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited %s for a hung operation, want 1s", took)
		}
		close(release)
		done := false
		if err := f.do(t.Context(), "a", func() error { done = true; return nil }); err != nil || !done {
			t.Errorf("after the hung operation: error %v, done %t", err, done)
		}
		synctest.Wait()
		if len(f.turns) > 0 {
			t.Errorf("%d volumes are remembered, want none", len(f.turns))
		}
	})
}

// A change between a look at an object and the wait for the next one is not missed.
func TestChanges(t *testing.T) {
	t.Parallel()
	var c changes
	first, again, other := c.next("a"), c.next("a"), c.next("b")
	c.notify("a")
	c.notify("a")
	<-first
	<-again
	select {
	case <-other:
		t.Error("another object has changed")
	case <-c.next("a"):
		t.Error("the object has changed before it did")
	default:
	}
}

// Sockets have short paths, whatever the name of the driver, replace those of an earlier process, and stay
// when it ends.
func TestSockets(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := socketsOf(dir, strings.Repeat("x", 63))
	if longest := len(strings.Replace(s.registration, dir, "/var/lib/kubelet", 1)); longest > 100 {
		t.Errorf("path of %d bytes", longest)
	}
	if s == socketsOf(dir, strings.Repeat("y", 63)) {
		t.Error("two drivers have the same sockets")
	}
	var last net.Listener
	for range 2 {
		if last, err = listen(s.registration); err != nil {
			t.Fatal(err)
		}
		if !s.exist() {
			t.Error("no socket of the driver")
		}
		if entries, err := os.ReadDir(filepath.Dir(s.registration)); err != nil || len(entries) != 1 {
			t.Errorf("%v, %v: want the socket alone", entries, err)
		}
		connection, err := net.Dial("unix", s.registration)
		if err != nil {
			t.Fatal(err)
		}
		_ = connection.Close()
		_ = last.Close()
	}
	if !s.exist() {
		t.Error("the socket is gone with its listener")
	}
	for range 2 {
		if err := s.remove(); err != nil || s.exist() {
			t.Errorf("remove: %v, exists: %t", err, s.exist())
		}
	}
}
