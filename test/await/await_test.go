// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package await_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stowage.dev/stowage/test/await"
)

// TestWait: a waiter sees what happened before it began to wait, and what happens then.
func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c await.Changes
		var n atomic.Int32
		c.Notify()
		if err := c.Wait(t.Context(), 0, "nothing", func() bool { return true }); err != nil {
			t.Error(err)
		}
		go func() {
			for range 3 {
				time.Sleep(time.Second) //nolint:forbidigo // in a synctest bubble
				n.Add(1)
				c.Notify()
			}
		}()
		if err := c.Wait(t.Context(), time.Minute, "three", func() bool { return n.Load() == 3 }); err != nil {
			t.Error(err)
		}
		if err := c.Wait(t.Context(), time.Minute, "four", func() bool { return n.Load() == 4 }); err == nil || !strings.Contains(err.Error(), "wait for four") {
			t.Errorf("got %v, want an error that says what was waited for", err)
		}
	})
}
