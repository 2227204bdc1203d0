// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
)

// TestLeaderKilled: of two replicas with leader election one is ready and answers;
// when it is killed, the other takes over.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Timeout = patience
	d := own(e, plan{mode: "full", name: "extender-leader", noScheduler: true, extender: []string{
		"{leaderElect: false}", "{leaderElect: true, leaseDuration: 8s, renewDeadline: 6s, retryPeriod: 500ms}",
	}})
	second := &replica{}
	for _, port := range []*int{&second.port, &second.health} {
		var err error
		if *port, err = freePort(); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.launch(second); err != nil {
		t.Fatal(err)
	}
	err := waitFor(t.Context(), func(ctx context.Context) (bool, error) {
		status, text := second.get(ctx, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "standing by"), nil
	})
	if err != nil {
		t.Fatalf("the second replica does not stand by: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := d.replica[0].await(ctx); err != nil {
		t.Fatalf("the leader is not ready: %v", err)
	}
	if err := d.replica[0].process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := second.await(ctx); err != nil {
		t.Error(err)
	}
}
