// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs/blockdevice"

	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
)

const (
	// restResync is minResyncPeriod of an idle provisioner: short, so that rescans can be
	// distinguished from other work.
	restResync = 10 * time.Second
	// calm is how long the provisioner gets no requests before it counts as idle: file
	// systems and the runtime have then completed deferred work.
	calm = 45 * time.Second
)

// Resting measures a provisioner that has this number of volumes, half of them file systems and
// half devices, and is idle for this time.
func (s *Setup) Resting(ctx context.Context, count int, long time.Duration) (measured figures.Set, err error) {
	m, err := s.newMachine(ctx, "resting")
	if err != nil {
		return nil, err
	}
	defer m.explain(&err)
	m.resync = restResync
	slots, err := m.disks(ctx, count)
	if err != nil {
		return nil, err
	}
	s.Progress("%d disks are published", count)
	begin := time.Now()
	if err := m.start(ctx); err != nil {
		return nil, err
	}
	for _, slot := range slots {
		if _, err := s.volumes.available(ctx, slot, ""); err != nil {
			return nil, err
		}
	}
	start := time.Since(begin)
	if _, err := command(ctx, "sync"); err != nil {
		return nil, err
	}
	s.Progress("the provisioner becomes idle")
	if err := parts.Pass(ctx, calm); err != nil {
		return nil, err
	}
	s.Progress("the provisioner is idle for %s", long)
	values, err := m.rest(ctx, long)
	values = append(values, figures.Value{Value: float64(count), Unit: "volumes"}, figures.Value{Value: start.Seconds(), Unit: "start-sec"})
	return figures.Set{figures.Line("Rest", 1, values...)}, err
}

// disks makes file systems and devices in turn.
func (m *machine) disks(ctx context.Context, count int) (slots []string, err error) {
	m.setup.Progress("%d disks are made", count)
	for i := range count {
		kind, name := ext4Class, fmt.Sprintf("disk-%d", i)
		if i%2 == 1 {
			kind = blockClass
		}
		if err := m.appear(ctx, kind, name); err != nil {
			return nil, err
		}
		slots = append(slots, m.slot(kind, name))
	}
	return slots, nil
}

// rest measures. To read the provisioner's metrics is work for it, and so done outside.
func (m *machine) rest(ctx context.Context, long time.Duration) ([]figures.Value, error) {
	scans, seconds, err := m.scans(ctx)
	if err != nil {
		return nil, err
	}
	before, err := source.Used(m.provisioner)
	if err != nil {
		return nil, err
	}
	requests, err := m.requests()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := parts.Pass(ctx, long); err != nil {
		return nil, err
	}
	after, err := source.Used(m.provisioner)
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	requestsAfter, err := m.requests()
	if err != nil {
		return nil, err
	}
	scansAfter, secondsAfter, err := m.scans(ctx)
	if err != nil {
		return nil, err
	}
	cpu, done := after.CPU-before.CPU, float64(scansAfter-scans)
	return []figures.Value{
		{Value: float64(after.RSS), Unit: "rss-B"}, {Value: float64(after.Peak), Unit: "peak-B"},
		{Value: took.Seconds(), Unit: "sec"}, {Value: done, Unit: "scans"}, {Value: (secondsAfter - seconds) / done, Unit: "scan-sec"},
		{Value: cpu / took.Minutes(), Unit: "cpu-sec/min"}, {Value: cpu / done, Unit: "cpu-sec/scan"},
		{Value: float64(len(m.devices)), Unit: "devices"}, {Value: float64(requestsAfter - requests), Unit: "requests"},
	}, nil
}

// requests counts the reads, writes, discards and flushes that the loop devices of the node have
// done.
func (m *machine) requests() (sum uint64, err error) {
	host, err := blockdevice.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	for _, device := range m.devices {
		stat, _, err := host.SysBlockDeviceStat(filepath.Base(device))
		if err != nil {
			return 0, fmt.Errorf("read the requests of %s: %w", device, err)
		}
		sum += stat.ReadIOs + stat.WriteIOs + stat.DiscardIOs + stat.FlushRequestsCompleted
	}
	return sum, nil
}
