// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	dto "github.com/prometheus/client_model/go"
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

// resting measures an idle provisioner that has volumes, half of them file systems and half devices.
func (b *bench) resting(ctx context.Context, _ *parts.Run) (measured figures.Set, err error) {
	err = b.with(ctx, func(n *node) error {
		n.resync = restResync
		var paths []string
		for i := range volumes {
			kind, name := []string{ext4Class, blockClass}[i%2], fmt.Sprintf("disk-%d", i)
			appear, err := n.prepare(ctx, kind, name)
			if err != nil {
				return err
			}
			if err := appear(); err != nil {
				return err
			}
			paths = append(paths, n.path(kind, name))
		}
		begin := time.Now()
		if err := n.start(ctx); err != nil {
			return err
		}
		for _, path := range paths {
			if _, err := n.volumes.available(ctx, path, ""); err != nil {
				return err
			}
		}
		start := time.Since(begin)
		if _, err := source.Output(ctx, "sync"); err != nil {
			return err
		}
		parts.Progress("the provisioner becomes idle")
		if err := parts.Pass(ctx, calm); err != nil {
			return err
		}
		parts.Progress("the provisioner is idle for %s", resting)
		values, err := n.rest(ctx)
		values = append(values, figures.Value{Value: volumes, Unit: "volumes"}, figures.Value{Value: start.Seconds(), Unit: "start-sec"})
		measured = figures.Set{figures.Line("Rest", 1, values...)}
		return err
	})
	return measured, err
}

// rest measures. To read the provisioner's metrics is work for it, and so done outside.
func (n *node) rest(ctx context.Context) ([]figures.Value, error) {
	scans, seconds, err := n.scans(ctx)
	if err != nil {
		return nil, err
	}
	requests, err := n.requests()
	if err != nil {
		return nil, err
	}
	used, took, err := source.During(n.provisioner, func() error { return parts.Pass(ctx, resting) })
	if err != nil {
		return nil, err
	}
	requestsAfter, err := n.requests()
	if err != nil {
		return nil, err
	}
	scansAfter, secondsAfter, err := n.scans(ctx)
	done := scansAfter - scans
	return []figures.Value{
		{Value: float64(used.RSS), Unit: "rss-B"}, {Value: float64(used.Peak), Unit: "peak-B"},
		{Value: took, Unit: "sec"}, {Value: done, Unit: "scans"}, {Value: (secondsAfter - seconds) / done, Unit: "scan-sec"},
		{Value: used.CPU / took * 60, Unit: "cpu-sec/min"}, {Value: used.CPU / done, Unit: "cpu-sec/scan"},
		{Value: float64(len(n.devices)), Unit: "devices"}, {Value: float64(requestsAfter - requests), Unit: "requests"},
	}, err
}

// scans are the provisioner's counts of scans, and their total seconds.
func (n *node) scans(ctx context.Context) (count, seconds float64, err error) {
	const name = "stowage_provisioner_scan_duration_seconds"
	err = source.Metrics(ctx, n.provisioner, name, func(m *dto.Metric, _ map[string]string) {
		count, seconds = float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum()
	})
	if err == nil && count == 0 {
		err = fmt.Errorf("the provisioner's metrics have no %s", name)
	}
	return count, seconds, err
}

// requests counts the reads, writes, discards and flushes that the loop devices of the node have
// done.
func (n *node) requests() (sum uint64, err error) {
	host, err := blockdevice.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	for _, device := range n.devices {
		stat, _, err := host.SysBlockDeviceStat(filepath.Base(device))
		if err != nil {
			return 0, fmt.Errorf("read the requests of %s: %w", device, err)
		}
		sum += stat.ReadIOs + stat.WriteIOs + stat.DiscardIOs + stat.FlushRequestsCompleted
	}
	return sum, nil
}
