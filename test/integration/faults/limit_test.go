// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestClientLimitShows: a scheduler that its client's rate limit delays logs that at start, with
// the line to configure, and serves how long it waited.
func TestClientLimitShows(t *testing.T) {
	t.Parallel()
	const pods = 5
	e := fixture.New(t)
	e.Timeout = waitTimeout
	addNodes(e, 2)
	addVolumes(e, 2, 4*pods)
	flood := createFlood(e, e.Name("scheduler"), pods)
	limited := startProcess(e, sample(e, "  qps: 1000\n  burst: 2000\n", "  qps: 10\n  burst: 1\n"))
	wantSettled(e, flood...)
	if waited := limiterWait(e, limited); waited <= 0 {
		t.Errorf("waited %v s for the client's limit of 10 requests a second", waited)
	}
	if err := limited.Kill(); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[*cluster.Process]int{limited: 1, startProcess(e, sample(e)): 0} {
		log, err := os.ReadFile(p.LogFile())
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(log, []byte("clientConnection: {qps: 1000, burst: 2000}")); got != want {
			t.Errorf("%d warnings of the client's limit, want %d, in\n%s", got, want, log)
		}
	}
}

// limiterWait is what requests of the process have waited for its client's limit, in seconds.
func limiterWait(e *fixture.Env, p *cluster.Process) float64 {
	e.T.Helper()
	sum := 0.0
	for _, line := range metricsOf(e, p) {
		if !strings.HasPrefix(line, "rest_client_rate_limiter_duration_seconds_sum{") {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
		if err != nil {
			e.T.Fatal(err)
		}
		sum += value
	}
	return sum
}
