// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/localdisk/provisioner/scan"
	"stowage.dev/stowage/pkg/metrics"
)

var _ scan.Provisioner = (*Provisioner)(nil)

// Folders implements scan.Provisioner.
func (p *Provisioner) Folders() (folders scan.Folders, period time.Duration) {
	conf := p.current()
	return conf.folders, conf.MinResyncPeriod.Duration
}

// Known implements scan.Provisioner. A slot occurs more than once if several disks have been in
// it.
func (p *Provisioner) Known() []disk.Known {
	conf := p.current()
	var all []disk.Known
	for _, record := range p.Records.All() {
		all = append(all, disk.Known{Key: record.Key, HostPath: record.HostPath, Kind: record.Kind, Identity: record.Identity})
	}
	for _, object := range p.volumes.GetStore().List() {
		if v, ok := p.volumes.read(conf, object); ok {
			k := disk.Known{Key: v.Key, HostPath: v.HostPath, Identity: v.Identity, Volume: v.Name, Displaced: !localpv.Configured(&v, conf.directories)}
			if record, ok, err := p.Records.Get(v.Identity); err == nil && ok {
				k.Kind = record.Kind
			}
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b disk.Known) int {
		return cmp.Or(strings.Compare(a.HostPath, b.HostPath), strings.Compare(a.Volume, b.Volume), strings.Compare(string(a.Identity), string(b.Identity)))
	})
	return all
}

// Scanned implements scan.Provisioner. It enqueues the paths that have changed.
func (p *Provisioner) Scanned(ctx context.Context, begin time.Time, folders scan.Folders, known []disk.Known, scanned disk.Scanned) (soon bool) {
	p.Records.Recheck()
	p.health.scanned(begin)
	scanned = p.selectDevices(ctx, scanned)
	changed, soon := p.paths.scanned(scanned, folders, known, p.Recheck)
	if len(changed) > 0 {
		klog.FromContext(ctx).V(4).Info("Paths changed", "paths", changed)
	}
	for _, path := range changed {
		p.queue.Add(path)
	}
	p.status.Changed()
	if p.inventory != nil {
		p.inventory.Scanned(scanned)
	}
	return soon
}

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
