// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/source"
)

// profileSeconds is how long the scheduler's CPU time is profiled, from the
// load's begin on.
const profileSeconds = 5

// profile starts to profile the scheduler under load. Its result waits until
// the profile is complete, and stores it.
func (s *setup) profile(ctx context.Context, c Config) (stored func() error) {
	if c.Profile.Folder == "" || s.scheduler == nil {
		return func() error { return nil }
	}
	before, broken := s.allRequests(ctx)
	profile := make(chan error, 1)
	name := filepath.Join(c.Profile.Folder, fmt.Sprintf("%s-%s-%d", c.Workload.Name, c.Arm, c.Round))
	go func() {
		data, err := s.scheduler.Get(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileSeconds))
		if err == nil {
			err = os.WriteFile(name+".pprof", data, 0o644)
		}
		profile <- err
	}()
	return func() error {
		after, late := s.allRequests(ctx)
		stored := os.WriteFile(name+".requests", difference(before, after), 0o644)
		logs := keepLog(s.scheduler, name+".log")
		if s.extender != nil {
			logs = errors.Join(logs, keepLog(s.extender.Process, name+".extender.log"))
		}
		return errors.Join(broken, late, stored, logs, <-profile)
	}
}

// keepLog copies a process's log.
func keepLog(p *cluster.Process, file string) error {
	log, err := os.ReadFile(p.LogFile())
	if err != nil {
		return err
	}
	return os.WriteFile(file, log, 0o644)
}

// allRequests are the API server's counts of requests, by resource and verb.
func (s *setup) allRequests(ctx context.Context) (map[string]float64, error) {
	families, err := metricsOf(ctx, s.cluster.APIServer().Process())
	if err != nil {
		return nil, err
	}
	counts := map[string]float64{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		l := source.Labels(m)
		counts[strings.Join([]string{l["verb"], l["resource"], l["subresource"], l["code"]}, " ")] += m.GetCounter().GetValue()
	}
	return counts, nil
}

// difference lists the counts that have grown, a line each.
func difference(before, after map[string]float64) []byte {
	var lines []byte
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if n := after[key] - before[key]; n > 0 {
			lines = fmt.Appendf(lines, "%8.0f %s\n", n, key)
		}
	}
	return lines
}
