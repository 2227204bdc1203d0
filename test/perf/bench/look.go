// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// profileSeconds is how long the scheduler's CPU time is profiled, from the
// load's begin on.
const profileSeconds = 5

// look begins to look at the scheduler under load. What it returns waits until
// that has been seen, and stores it.
func (s *site) look(ctx context.Context, c Config) (looked func() error) {
	if c.Look.Folder == "" || s.scheduler == nil {
		return func() error { return nil }
	}
	profile := make(chan error, 1)
	name := filepath.Join(c.Look.Folder, fmt.Sprintf("%s-%s-%d", c.Workload.Name, c.Arm, c.Round))
	go func() {
		data, err := s.scheduler.Get(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileSeconds))
		if err == nil {
			err = os.WriteFile(name+".pprof", data, 0o644)
		}
		profile <- err
	}()
	return func() error {
		log, err := os.ReadFile(s.scheduler.LogFile())
		if err == nil {
			err = os.WriteFile(name+".log", log, 0o644)
		}
		return errors.Join(err, <-profile)
	}
}
