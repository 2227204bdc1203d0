// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	// scanDelay batches changes: a script that mounts ten disks causes one scan.
	scanDelay = 50 * time.Millisecond
	// On a node where pods come and go, something is mounted every moment. Scans take at most
	// scanShare of the time in the long run; the first scanBurst of scanning is not limited.
	scanShare, scanBurst = 0.1, 6 * time.Second
	// scanPauseMax limits how long scanShare delays one scan.
	scanPauseMax = 2 * time.Second
	// watchRetry is the time between two attempts to watch the directories.
	watchRetry = 30 * time.Second
)

// scanner scans the discovery directories, and enqueues the paths that have changed.
type scanner struct {
	provisioner *Provisioner
	requests    chan struct{} // each requests a scan
	rewatch     chan struct{} // each requests new watches
}

func newScanner(p *Provisioner) *scanner {
	return &scanner{provisioner: p, requests: make(chan struct{}, 1), rewatch: make(chan struct{}, 1)}
}

// run scans on request, and periodically.
func (s *scanner) run(ctx context.Context) {
	budget := scanBudget{left: scanBurst, at: time.Now()}
	for {
		begin := time.Now()
		soon := s.scan(ctx)
		next := budget.spend(begin, time.Now())
		pause := s.provisioner.current().MinResyncPeriod.Duration
		pause = min(pause+rand.N(pause), decide.FaultLooks*s.provisioner.Recheck) // most faults cause no event
		if soon {
			pause = s.provisioner.Recheck
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.requests:
			timer.Stop()
			if !sleep(ctx, max(scanDelay, time.Until(next))) {
				return
			}
		case <-timer.C:
		}
	}
}

// scanBudget is how much time may still be spent on scans.
type scanBudget struct {
	left time.Duration
	at   time.Time
}

// spend accounts for a scan, and returns when the next one may begin.
func (b *scanBudget) spend(begin, end time.Time) time.Time {
	b.left = min(b.left+time.Duration(float64(end.Sub(b.at))*scanShare), scanBurst) - end.Sub(begin)
	b.at = end
	if b.left >= 0 {
		return end
	}
	wait := min(time.Duration(float64(-b.left)/scanShare), scanPauseMax)
	b.left = max(b.left, -time.Duration(float64(scanPauseMax)*scanShare))
	return end.Add(wait)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// poke sends a request, unless one is pending.
func poke(requests chan<- struct{}) {
	select {
	case requests <- struct{}{}:
	default:
	}
}

// scan scans once, and enqueues the paths that have changed. It reports whether the next
// scan has to be soon, since a disk is missing or does not answer.
func (s *scanner) scan(ctx context.Context) (soon bool) {
	p := s.provisioner
	conf := p.current()
	known := s.knownSlots(conf)
	p.Records.Recheck()
	begin := time.Now()
	scanned := p.Prober.Scan(ctx, disk.Scan{Folders: conf.folders, Known: known})
	if ctx.Err() != nil {
		return false
	}
	p.health.scanned(begin)
	changed, soon := p.paths.observe(scanned, scanContext{conf: conf, known: known, apart: p.Recheck})
	if len(changed) > 0 {
		klog.FromContext(ctx).V(4).Info("Paths changed", "paths", changed)
	}
	for _, path := range changed {
		p.queue.Add(path)
	}
	p.status.poke()
	return soon
}

// knownSlots are the slots of volumes and records, which a scan looks for. A slot occurs
// more than once if several disks have been in it.
func (s *scanner) knownSlots(conf *settings) []disk.Known {
	p := s.provisioner
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

// watch requests a scan whenever something in the directories may have changed.
func (s *scanner) watch(ctx context.Context) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() {
			failed <- s.provisioner.Prober.Watch(watching, s.provisioner.current().folders, func() { poke(s.requests) })
		}()
		poke(s.requests) // for what happened before the watch began
		var err error
		select {
		case <-ctx.Done():
		case <-s.rewatch:
		case err = <-failed:
			failed <- nil
		}
		cancel()
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to watch the discovery directories; scanning periodically", "retry", watchRetry)
			sleep(ctx, watchRetry)
		} else if err := <-failed; err != nil {
			klog.FromContext(ctx).V(4).Info("Watch of the discovery directories ended", "err", err)
		}
	}
}
