// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"slices"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestLeaderHandover: of three schedulers that share a lease the leader dies
// in the middle of a flood of pods, and the next one is asked to end.
func TestLeaderHandover(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Timeout = patience
	options := sample(e,
		// A test does not want to wait long for the lease of one that died.
		"  leaderElect: true\n", "  leaderElect: true\n  leaseDuration: 6s\n  renewDeadline: 5s\n  retryPeriod: 1s\n",
		// Slow enough for each to have a part.
		"  qps: 1000\n  burst: 2000\n", "  qps: 50\n  burst: 1\n")
	options.LeaderElect = true
	flood := createFlood(e, e.Name("scheduler"), floodPods)
	placed := func(n int) {
		t.Helper()
		e.Wait("pods to be placed", func() bool { return scheduled(e, flood) >= n })
	}

	first := startProcess(e, options)
	placed(1)
	standby := []*cluster.Process{startProcess(e, options), startProcess(e, options)}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	left := scheduled(e, flood)
	t.Logf("leader killed with %d pods placed", left)
	placed(left + floodPods/10) // what was under way may still show
	leader := standby[0]
	if !leads(e, leader) {
		leader = standby[1]
	}
	t.Logf("next leader asked to end with %d pods placed", scheduled(e, flood))
	within(e, leader.Stop)
	wantSettled(e, flood...)
}

// leads asks the process whether it has the lease.
func leads(e *fixture.Env, p *cluster.Process) bool {
	e.T.Helper()
	return slices.Contains(metricsOf(e, p), `leader_election_master_status{name="stowage-scheduler"} 1`)
}
