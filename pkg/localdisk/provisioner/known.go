// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/provisioner/scan"
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
			k := disk.Known{Key: v.Key, HostPath: v.HostPath, Identity: v.Identity, Volume: v.Name}
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
	changed, soon := p.paths.scanned(scanned, folders, known, p.Recheck)
	if len(changed) > 0 {
		klog.FromContext(ctx).V(4).Info("Paths changed", "paths", changed)
	}
	for _, path := range changed {
		p.queue.Add(path)
	}
	p.status.Changed()
	return soon
}
