// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"errors"
	"testing"

	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestUpgrade exchanges the scheduler for one of an earlier commit and back, killed in the
// middle of a flood of pods with two claims each: every pod gets its volumes, and each claim one.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	campaign.Begin(t)
	if !campaign.Scale(false, true) {
		t.Skip("builds the scheduler of an earlier commit: make soak RUN=faults.TestUpgrade")
	}
	e := fixture.New(t)
	e.Timeout = waitTimeout
	earlier, err := cluster.BuildEarlier(e.Context(), cluster.BuildOptions{Progress: t.Output()}, "stowage.dev/stowage/cmd/scheduler")
	if errors.Is(err, cluster.ErrNoCommit) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	const pods = 120
	addNodes(e, 10)
	addVolumes(e, 10, 3*pods)
	flood := createFlood(e, e.Name("scheduler"), pods)
	current := sample(e, "  qps: 1000\n  burst: 2000\n", "  qps: 50\n  burst: 50\n") // or it would be done too soon
	old := current
	old.Binary = earlier
	halves := 0
	for i, options := range []cluster.SchedulerOptions{old, current, old} {
		p := startProcess(e, options)
		e.Wait("the scheduler to write", func() bool { return len(claimed(e)) >= 2*pods*(i+1)/4 })
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		halves = max(halves, halfBound(e))
	}
	if halves <= 0 {
		t.Error("the scheduler was never killed between two writes of a binding")
	}
	startProcess(e, current)
	wantSettled(e, flood...)
	if n := len(claimed(e)); n != 2*pods {
		t.Errorf("%d volumes are claimed, want %d: one for each claim\n%s", n, 2*pods, e.Dump())
	}
}
