// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"stowage.dev/stowage/pkg/metrics"
)

// stalled is how long beyond the longest pause the disks may not have been looked at.
const scanGrace = 2 * time.Minute

// health is what probes are answered with.
type health struct {
	synced atomic.Bool
	// scan is when the last scan ended, nil before the first; with the monotonic clock,
	// since a clock that is set right does not make an agent stall.
	scan atomic.Pointer[time.Time]
}

func (h *health) scanned(begin time.Time) {
	now := time.Now()
	metrics.ObserveScan(now, now.Sub(begin))
	h.scan.Store(&now)
}

// Healthy says whether the agent still looks at its disks: an error says that it has
// stalled and should be started anew.
func (p *Provisioner) Healthy() error {
	last := p.health.scan.Load()
	if last == nil {
		return nil // it waits for the API server
	}
	age := time.Since(*last)
	if allowed := 2*p.current().MinResyncPeriod + scanGrace; age > allowed {
		return fmt.Errorf("the disks were last looked at %s ago, and should have been within %s", age.Round(time.Second), allowed)
	}
	return nil
}

// Ready returns an error if the provisioner does not read the directory of a class; if the
// class is empty, of any class, or if it cannot write the node's report.
func (p *Provisioner) Ready(class string) error {
	if err := p.checkReads(class); err != nil || class != "" {
		return err
	}
	return p.status.unwritten()
}

// reads returns an error if the provisioner does not read the directory of a class; of any
// class if it is empty.
func (p *Provisioner) checkReads(class string) error {
	if !p.health.synced.Load() || p.health.scan.Load() == nil {
		return errors.New("the disks have not been looked at yet")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if class != "" && p.settings.classes[class] == nil {
		return fmt.Errorf("class %q is not configured", class)
	}
	var problems error
	for _, name := range slices.Sorted(maps.Keys(p.scan_.trouble)) {
		if class == "" || name == class {
			problems = errors.Join(problems, fmt.Errorf("class %s: %w", name, p.scan_.trouble[name]))
		}
	}
	return problems
}
