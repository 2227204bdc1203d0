// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/slot"
)

const (
	// settle is how long a scan waits for more to happen: what mounts ten disks does
	// so in one go.
	scanDelay = 50 * time.Millisecond
	// Where pods come and go all the time, something is mounted every moment. Looking
	// takes a lookShare of the time then, in the long run; for as much as lookBurst of
	// looking it is quick.
	scanShare, scanBurst = 0.1, 6 * time.Second
	// lookPause is how long a scan waits for that at most.
	scanPauseMax = 2 * time.Second
	// watchRetry is how long after the watches failed they are tried again.
	watchRetry = 30 * time.Second
)

// sight is what the last scan saw.
type scanResult struct {
	facts   map[string]disk.Fact     // by path on the node
	present map[disk.Identity]bool   // identities of facts; not changed once the scan has ended
	since   map[string]time.Time     // when a fact was first seen as it is
	gone    map[string]int           // looks in a row that saw no disk, by path
	left    map[string]time.Time     // when the first of them was
	faults  map[string]slot.Fault    // of disks that do not answer well, by path
	trouble map[string]*disk.Problem // by class
	looked  map[string]bool          // classes whose directory was read
	ended   time.Time
}

func newScanResult() scanResult {
	return scanResult{facts: map[string]disk.Fact{}, present: map[disk.Identity]bool{}, since: map[string]time.Time{}, gone: map[string]int{}, left: map[string]time.Time{}, faults: map[string]slot.Fault{}, trouble: map[string]*disk.Problem{}, looked: map[string]bool{}}
}

// scans scans on request, and from time to time.
func (p *Provisioner) runScans(ctx context.Context) {
	allowance := scanBudget{left: scanBurst, at: time.Now()}
	for {
		begin := time.Now()
		soon := p.scan(ctx)
		next := allowance.spend(begin, time.Now())
		pause := p.current().MinResyncPeriod
		pause = min(pause+rand.N(pause), slot.FaultLooks*p.Recheck) // most faults cause no event
		if soon {
			pause = p.Recheck
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-p.scanRequests:
			timer.Stop()
			if !sleep(ctx, max(scanDelay, time.Until(next))) {
				return
			}
		case <-timer.C:
		}
	}
}

// allowance is how much time may still be spent on looking.
type scanBudget struct {
	left time.Duration
	at   time.Time
}

// spend accounts for a look, and says when the next one may begin.
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

// scan looks once, and puts the slots about which there is something new into the
// queue. It reports whether something has vanished or does not answer well, so that the
// next scan has to be soon.
func (p *Provisioner) scan(ctx context.Context) (soon bool) {
	conf := p.current()
	known := p.knownSlots(conf)
	p.Records.Recheck()
	begin := time.Now()
	scanned := p.Prober.Scan(ctx, disk.Scan{Folders: conf.folders, Known: known})
	if ctx.Err() != nil {
		return false
	}
	p.health.scanned(begin)
	changed, soon := p.apply(conf, known, scanned)
	if len(changed) > 0 {
		klog.FromContext(ctx).V(4).Info("Saw something new", "paths", changed)
	}
	for _, path := range changed {
		p.queue.Add(path)
	}
	p.status.poke()
	return soon
}

// see takes over what a scan found, and returns the paths with something new.
func (p *Provisioner) apply(conf *settings, known []disk.Known, scanned disk.Scanned) (changed []string, soon bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := newScanResult()
	next.trouble, next.ended = scanned.Trouble, time.Now()
	for _, folder := range conf.folders {
		next.looked[folder.Class] = scanned.Trouble[folder.Class] == nil
		if next.looked[folder.Class] != p.scan_.looked[folder.Class] {
			changed = append(changed, p.pathsOf(folder.Class)...)
		}
	}
	for _, fact := range scanned.Facts {
		fact = next.observe(fact, &p.scan_, p.Recheck)
		soon = soon || next.faults[fact.HostPath].Changing()
		next.facts[fact.HostPath] = fact
		next.present[fact.Identity] = true
		next.since[fact.HostPath] = next.ended
		if old, ok := p.scan_.facts[fact.HostPath]; ok && sameFact(old, fact) {
			next.since[fact.HostPath] = p.scan_.since[fact.HostPath]
		}
	}
	for _, path := range paths(next, p.scan_, known) {
		key, ok := conf.keyOf(path)
		if ok && !next.looked[key.Class] {
			if fault, known := p.scan_.faults[path]; known {
				next.faults[path] = fault
			}
			continue
		}
		s := slot.Slot{Fact: next.fact(path)}
		if ok && s.Vacant() {
			next.countMiss(path, &p.scan_, p.Recheck)
			soon = soon || next.gone[path] < slot.GoneAfter
		}
		if next.differs(path, &p.scan_) || p.status.waiting(path) {
			changed = append(changed, path)
		}
	}
	p.scan_ = next
	return changed, soon
}

// follow accounts for what is wrong with a disk, and returns the fact with what is still
// wrong although it is not seen at the moment.
func (s *scanResult) observe(fact disk.Fact, last *scanResult, apart time.Duration) disk.Fact {
	fault := last.faults[fact.HostPath].Observe(fact.Problem, s.ended, apart)
	if fault != (slot.Fault{}) {
		s.faults[fact.HostPath] = fault
	}
	fact.Problem = fault.Problem(fact.Problem)
	var before disk.Attachment
	if old := last.fact(fact.HostPath); old != nil && old.Identity == fact.Identity {
		before = old.Attachment
	}
	fact.Attachment = fact.Attachment.Continue(before, s.ended)
	return fact
}

// miss counts that a path leads to no disk. Looks that follow one another at once,
// since something else has changed, count as one.
func (s *scanResult) countMiss(path string, last *scanResult, apart time.Duration) {
	s.gone[path], s.left[path] = last.gone[path], last.left[path]
	switch {
	case s.gone[path] == 0:
		s.gone[path], s.left[path] = 1, s.ended
	case s.gone[path] < slot.GoneAfter && s.ended.Sub(s.left[path]) >= apart:
		s.gone[path], s.left[path] = s.gone[path]+1, s.ended
	}
}

// differs reports whether a path has changed.
func (s *scanResult) differs(path string, last *scanResult) bool {
	now, before := s.fact(path), last.fact(path)
	if s.faults[path].Failing != last.faults[path].Failing {
		return true
	}
	if now == nil || before == nil {
		return now != before || s.gone[path] != last.gone[path]
	}
	return s.gone[path] != last.gone[path] || !sameFact(*before, *now)
}

func (s *scanResult) fact(path string) *disk.Fact {
	fact, ok := s.facts[path]
	if !ok {
		return nil
	}
	return &fact
}

// paths are those that either look saw, and those of what is known.
func paths(next, last scanResult, known []disk.Known) []string {
	set := map[string]bool{}
	for path := range next.facts {
		set[path] = true
	}
	for path := range last.facts {
		set[path] = true
	}
	for _, k := range known {
		if k.Volume != "" {
			set[k.HostPath] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// sameFact reports whether two facts are equal, but for a size that changes with what others
// write.
func sameFact(a, b disk.Fact) bool {
	if a.SharesSpace() {
		a.Bytes = b.Bytes
	}
	if (a.Problem == nil) != (b.Problem == nil) || a.Problem != nil && *a.Problem != *b.Problem {
		return false
	}
	a.Problem, b.Problem = nil, nil
	overlaps := slices.Equal(a.Overlaps, b.Overlaps)
	a.Overlaps, b.Overlaps = nil, nil
	return overlaps && a.Key == b.Key && a.HostPath == b.HostPath && a.Path == b.Path && a.Device == b.Device && a.Kind == b.Kind &&
		a.FilesystemType == b.FilesystemType && a.Identity == b.Identity && a.Place == b.Place && a.Attachment == b.Attachment && a.Bytes == b.Bytes
}

// known are the slots of volumes and records, which a scan has to tell about. A slot is
// there more than once if several disks have been in it.
func (p *Provisioner) knownSlots(conf *settings) []disk.Known {
	var all []disk.Known
	for _, record := range p.Records.All() {
		all = append(all, disk.Known{Key: record.Key, HostPath: record.HostPath, Kind: record.Kind, Identity: record.Identity})
	}
	for _, object := range p.volumes.GetStore().List() {
		if v, ok := p.volumeOf(conf, object); ok {
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

// pathsOf are the paths of a class that something is known of. The caller holds mu.
func (p *Provisioner) pathsOf(class string) []string {
	var found []string
	for path, fact := range p.scan_.facts {
		if fact.Class == class {
			found = append(found, path)
		}
	}
	for _, object := range p.volumes.GetStore().List() {
		if v, ok := p.volumeOf(p.settings, object); ok && v.Key.Class == class {
			found = append(found, v.HostPath)
		}
	}
	return found
}

// identities are those of the disks that the last scan saw. The caller does not change them.
func (p *Provisioner) identities() map[disk.Identity]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scan_.present
}

// everything puts all slots into the queue.
func (p *Provisioner) enqueueAll() {
	p.mu.Lock()
	all := slices.Collect(maps.Keys(p.scan_.facts))
	p.mu.Unlock()
	for _, object := range p.volumes.GetStore().List() {
		all = append(all, pathOf(object))
	}
	for _, path := range all {
		if path != "" {
			p.queue.Add(path)
		}
	}
}

// watchDisks asks for a look whenever something may have changed.
func (p *Provisioner) watchDisks(ctx context.Context) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() { failed <- p.Prober.Watch(watching, p.current().folders, func() { poke(p.scanRequests) }) }()
		poke(p.scanRequests) // for what happened before the watch began
		var err error
		select {
		case <-ctx.Done():
		case <-p.watchRequests:
		case err = <-failed:
			failed <- nil
		}
		cancel()
		if err != nil {
			klog.FromContext(ctx).Error(err, "Disks are not watched, only looked at from time to time", "retry", watchRetry)
			sleep(ctx, watchRetry)
		} else if err := <-failed; err != nil {
			klog.FromContext(ctx).V(4).Info("Watching ended", "err", err)
		}
	}
}
