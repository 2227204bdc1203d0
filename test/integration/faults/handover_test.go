// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"testing"

	"stowage.dev/stowage/test/integration/fixture"
)

// TestLeaderHandover: of two schedulers that share a lease the leader dies in
// the middle of a flood of pods, and the next one is asked to end.
func TestLeaderHandover(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Timeout = patience
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	options := sample(e,
		// A test does not want to wait long for the lease of one that died.
		"  leaderElect: true\n", "  leaderElect: true\n  leaseDuration: 6s\n  renewDeadline: 5s\n  retryPeriod: 1s\n",
		// Slow enough for all three to have a part.
		"  qps: 1000\n  burst: 2000\n", "  qps: 40\n  burst: 40\n")
	options.LeaderElect = true
	flood := createFlood(e, e.Name("scheduler"), floodPods)
	placed := func(n int) {
		t.Helper()
		e.Wait("pods to be placed", func() bool { return scheduled(e, flood) >= n })
	}

	first := startProcess(e, options)
	placed(1)
	second := startProcess(e, options)
	placed(floodPods / 10)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	left := scheduled(e, flood)
	t.Logf("leader killed with %d pods placed", left)
	placed(left + floodPods/10) // what was under way may still show
	startProcess(e, options)
	if err := second.Stop(ctx); err != nil {
		t.Error(err)
	}
	t.Logf("next leader ended with %d pods placed", scheduled(e, flood))
	wantSettled(e, flood...)
}
