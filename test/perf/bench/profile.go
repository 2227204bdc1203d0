// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"stowage.dev/stowage/test/cluster"
)

// Profile is for those who want to know why figures are as they are. It costs some speed.
type Profile struct {
	// Folder, which must exist, receives the logs of scheduler and extender and, as
	// NAME.pprof, a profile of the scheduler's CPU time under load; empty: none.
	Folder string
	// Verbosity of the logs.
	Verbosity int
}

// profileSeconds is how long the scheduler's CPU time is profiled, from the
// load's begin on.
const profileSeconds = 5

// profile starts to profile the scheduler under load. Its result waits until
// the profile is complete, and stores it.
func (s *setup) profile(ctx context.Context, c Config) (stored func() error) {
	if c.Profile.Folder == "" || s.scheduler == nil {
		return func() error { return nil }
	}
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
		logs := keepLog(s.scheduler, name+".log")
		if s.extender != nil {
			logs = errors.Join(logs, keepLog(s.extender.Process, name+".extender.log"))
		}
		return errors.Join(logs, <-profile)
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
