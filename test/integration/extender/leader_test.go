// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
)

// TestLeaderKilled: of two replicas with leader election, as shipped, one answers while
// pods are created. It is terminated, and the other takes over; that one is killed, and
// the first, started again, takes over. All pods get their volumes.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Timeout = 2 * waitTimeout
	d := own(e, plan{mode: "full", name: "extender-leader", replicas: 2, elected: true})
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitTimeout)
	defer cancel()
	first, second := d.replica[0], d.replica[1]
	pods := packWhile(e, 10, 10, func(created int) {
		var err error
		switch created {
		case 20:
			t.Logf("terminated with %d of %d pods placed", placed(e), created)
			if err = first.process.Stop(ctx); err == nil {
				err = second.await(ctx)
			}
		case 40:
			err = d.standBy(ctx, first)
		case 60:
			t.Logf("killed with %d of %d pods placed", placed(e), created)
			err = second.process.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if err := first.await(ctx); err != nil {
		t.Error(err)
	}
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	wantPacked(e, len(pods))
}
