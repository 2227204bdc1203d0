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

// scanGrace is how much later than planned a scan may end.
const scanGrace = 2 * time.Minute

// health is the basis of the liveness and readiness probes.
type health struct {
	synced atomic.Bool
	// scan is when the last scan ended, nil before the first; with the monotonic clock, so
	// that setting the clock does not make the provisioner unhealthy.
	scan atomic.Pointer[time.Time]
}

func (h *health) scanned(begin time.Time) {
	now := time.Now()
	metrics.ObserveScan(now, now.Sub(begin))
	h.scan.Store(&now)
}

// Healthy returns an error if the disks are not scanned any more, so that the provisioner
// should be restarted.
func (p *Provisioner) Healthy() error {
	last := p.health.scan.Load()
	if last == nil {
		return nil // the provisioner waits for the API server
	}
	age := time.Since(*last)
	if allowed := 2*p.current().MinResyncPeriod.Duration + scanGrace; age > allowed {
		return fmt.Errorf("the disks were last scanned %s ago, which should be %s at most", age.Round(time.Second), allowed)
	}
	return nil
}

// Ready returns an error if the provisioner does not read the directory of a class; if the
// class is empty, of any class, or if it cannot write the node's report.
func (p *Provisioner) Ready(class string) error {
	if err := p.CheckReads(class); err != nil || class != "" {
		return err
	}
	return p.status.Unwritten()
}

// CheckReads implements status.Provisioner: it returns an error if the provisioner does not read the directory of a class; of any
// class if it is empty.
func (p *Provisioner) CheckReads(class string) error {
	if !p.health.synced.Load() || p.health.scan.Load() == nil {
		return errors.New("the disks have not been scanned yet")
	}
	if _, configured := p.current().Classes[class]; class != "" && !configured {
		return fmt.Errorf("class %q is not configured", class)
	}
	p.paths.mu.Lock()
	defer p.paths.mu.Unlock()
	var problems error
	for _, name := range slices.Sorted(maps.Keys(p.paths.trouble)) {
		if class == "" || name == class {
			problems = errors.Join(problems, fmt.Errorf("class %s: %w", name, p.paths.trouble[name]))
		}
	}
	return problems
}

// AllDecided implements status.Provisioner.
func (p *Provisioner) AllDecided() bool {
	if p.CheckReads("") != nil {
		return false
	}
	var paths []string
	for _, volume := range p.volumes.GetStore().List() {
		if path := pathOf(volume); path != "" {
			paths = append(paths, path)
		}
	}
	return p.paths.allDecided(paths)
}
