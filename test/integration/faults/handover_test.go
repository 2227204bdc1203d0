// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestLeaderHandover: of three schedulers that share a lease the leader dies
// while it binds a flood of pods, and the next one is terminated.
func TestLeaderHandover(t *testing.T) {
	t.Parallel()
	campaign.Begin(t)
	e := fixture.New(t)
	e.Timeout = waitTimeout
	const nodes = 10
	pods := campaign.Scale(30, 120)
	// The lease is as in the sample: a leader that cannot renew it in time ends,
	// and on a loaded machine a short one is soon lost.
	options := sample(e, "  qps: 1000\n  burst: 2000\n", "  qps: 10\n  burst: 1\n") // for each to have a part
	options.LeaderElect = true
	addVolumes(e, nodes, 3*pods)
	flood := createFlood(e, e.Name("scheduler"), pods)
	running := []*cluster.Process{startProcess(e, options), startProcess(e, options), startProcess(e, options)}
	addNodes(e, nodes) // last, so that all pods can be placed at once

	underWay := func(what string) {
		t.Helper()
		placed := scheduled(e, flood)
		t.Logf("%s with %d volumes claimed, %d pods placed", what, len(claimed(e)), placed)
		if placed == pods {
			t.Error("nothing was left to be handed over")
		}
	}
	leader := leading(e, running, 10)
	if err := running[leader].Kill(); err != nil {
		t.Fatal(err)
	}
	running[leader] = startProcess(e, options) // as a kubelet does
	underWay("leader killed")
	leader = leading(e, running, min(len(claimed(e))+20, 2*pods)) // requests in flight may still arrive
	underWay("next leader terminated")
	within(e, running[leader].Stop)
	wantSettled(e, flood...)
}

// leading is the process that has the lease, when this many volumes are
// claimed. For a moment it may be none of them.
func leading(e *fixture.Env, processes []*cluster.Process, volumes int) int {
	e.T.Helper()
	e.Wait(fmt.Sprintf("%d volumes to be claimed", volumes), func() bool { return len(claimed(e)) >= volumes })
	leader := -1
	err := wait.PollUntilContextTimeout(e.Context(), 100*time.Millisecond, e.Timeout, true, func(context.Context) (bool, error) { //nolint:forbidigo // another process's metric
		leader = slices.IndexFunc(processes, func(p *cluster.Process) bool {
			select {
			case <-p.Done(): // has lost the lease
				return false
			default:
			}
			// Upstream names this metric after kube-scheduler, for any
			// the lease's name.
			return slices.Contains(metricsOf(e, p), `leader_election_master_status{name="kube-scheduler"} 1`)
		})
		return leader >= 0, nil
	})
	if err != nil {
		e.T.Fatalf("none of the schedulers has the lease: %v\n%s", err, e.Dump())
	}
	return leader
}
