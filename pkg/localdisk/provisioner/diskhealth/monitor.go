// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diskhealth watches the health of the disks of a node, and records it.
package diskhealth

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	// period is the time between two reads of the signs.
	period = 5 * time.Second
	// maxKept is how many disks that are not attached are kept, the last ones that were not healthy.
	maxKept = 256
)

// Reader reads the signs of disks.
type Reader interface {
	// ReadHealth returns the signs of each disk that has any. A disk that has not answered for
	// hungAfter hangs. It returns even if disks do not answer.
	ReadHealth(targets []disk.HealthTarget, hungAfter time.Duration) (map[disk.Identity][]disk.Sign, error)
}

// Records keeps the health of disks over a restart.
type Records interface {
	Health() map[disk.Identity]disk.Health
	PutHealth(all map[disk.Identity]disk.Health) error
}

// Config is what a Monitor needs.
type Config struct {
	Reader  Reader
	Records Records
	// Settings returns the configuration in force, Targets the disks of the node.
	Settings func() provisioner.DiskHealth
	Targets  func() []disk.HealthTarget
	// Changed is called when the state of a disk has changed, or a scan will find a change.
	Changed func()
}

// Monitor watches disks. Its methods are safe for concurrent use.
type Monitor struct {
	Config

	mu    sync.Mutex
	known map[disk.Identity]disk.Health
	// resets are the names (Health.ResetName) that administrators reset.
	resets map[string]bool
	// readOnly are the disks that reject writes.
	readOnly map[disk.Identity]bool
	// unwritten reports whether known has to be recorded.
	unwritten bool
}

// New returns a monitor that Run starts.
func New(config Config) *Monitor {
	return &Monitor{Config: config, known: config.Records.Health()}
}

// Of returns the health of a disk. If disks are not watched, all are healthy.
func (m *Monitor) Of(identity disk.Identity) disk.Health {
	if !*m.Settings().Enabled {
		return disk.Health{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[identity]
}

// Reset resets the disks that are named (Health.ResetName), from the next read on.
func (m *Monitor) Reset(names map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resets = names
}

// Run watches the disks until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if err := m.pass(ctx, time.Now()); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to watch the health of disks; retrying")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pass reads the signs of all disks once.
func (m *Monitor) pass(ctx context.Context, now time.Time) error {
	settings := m.Settings()
	if !*settings.Enabled {
		metrics.SetDiskHealth(nil)
		return nil
	}
	targets := m.Targets()
	signs, err := m.Reader.ReadHealth(targets, settings.HungAfter.Duration)
	if err != nil {
		return fmt.Errorf("read signs of failing disks: %w", err)
	}
	limits := decide.HealthLimits{Degraded: uint64(*settings.DegradedErrors), Failing: uint64(*settings.FailingErrors)}
	changed, readOnly, counts := false, map[disk.Identity]bool{}, map[string]int{string(disk.Healthy): 0, string(disk.Degraded): 0, string(disk.Failing): 0}
	m.mu.Lock()
	for _, t := range targets {
		last := m.known[t.Identity]
		next := decide.ObserveHealth(last, signs[t.Identity], limits, now)
		if last.State != "" && m.resets[last.ResetName(t.Identity)] {
			next = decide.ResetHealth(next) // its signs may be older than the reset
		}
		changed = m.store(ctx, t.Identity, last, next) || changed
		counts[string(next.Current())]++
		if slices.ContainsFunc(signs[t.Identity], func(s disk.Sign) bool { return s.Reason == disk.DeviceReadOnly }) {
			readOnly[t.Identity] = true
		}
	}
	changed = changed || !maps.Equal(readOnly, m.readOnly)
	m.readOnly = readOnly
	m.prune(targets)
	m.mu.Unlock()
	metrics.SetDiskHealth(counts)
	err = m.write()
	if changed {
		m.Changed()
	}
	return err
}

// store stores the health of a disk, and returns whether its state or its reason has changed. A
// failing disk is not recorded each time that it shows another error. The caller holds mu.
func (m *Monitor) store(ctx context.Context, identity disk.Identity, last, next disk.Health) (changed bool) {
	m.known[identity] = next
	changed = next.Current() != last.Current() || next.Reason != last.Reason || !next.Since.Equal(last.Since)
	if changed {
		klog.FromContext(ctx).Info("Health of a disk changed", "identity", identity, "before", last.Current(), "now", next.Current(), "reason", next.Reason, "message", next.Message)
	}
	if changed || next.State != disk.Failing && (next.Errors != last.Errors || !maps.Equal(next.Counters, last.Counters)) {
		m.unwritten = true
	}
	return changed
}

// prune removes disks of which nothing is known, and those that are not attached any more if
// there are many. The caller holds mu.
func (m *Monitor) prune(targets []disk.HealthTarget) {
	attached := map[disk.Identity]bool{}
	for _, t := range targets {
		attached[t.Identity] = true
	}
	var away []disk.Identity
	for id, h := range m.known {
		switch {
		case reflect.DeepEqual(h, disk.Health{}), !attached[id] && h.State == "" && h.Errors == 0:
			delete(m.known, id)
		case !attached[id]:
			away = append(away, id)
		}
	}
	slices.SortFunc(away, func(a, b disk.Identity) int { return m.known[b].Since.Compare(m.known[a].Since) })
	for _, id := range away[min(len(away), maxKept):] {
		delete(m.known, id)
	}
}

// write records the health of all disks, if it has changed.
func (m *Monitor) write() error {
	m.mu.Lock()
	all, needed := maps.Clone(m.known), m.unwritten
	m.mu.Unlock()
	if !needed {
		return nil
	}
	if err := m.Records.PutHealth(all); err != nil {
		return fmt.Errorf("record the health of disks: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unwritten = false
	return nil
}
