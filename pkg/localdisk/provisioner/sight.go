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

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

const (
	// settle is how long a scan waits for more to happen: what mounts ten disks does
	// so in one go.
	settle = 50 * time.Millisecond
	// Where pods come and go all the time, something is mounted every moment. Looking
	// takes a lookShare of the time then, in the long run; for as much as lookBurst of
	// looking it is quick.
	lookShare, lookBurst = 0.1, 6 * time.Second
	// lookPause is how long a scan waits for that at most.
	lookPause = 2 * time.Second
	// watchRetry is how long after the watches failed they are tried again.
	watchRetry = 30 * time.Second
)

// sight is what the last scan saw.
type sight struct {
	facts   map[string]disk.Fact     // by path on the node
	present map[disk.Identity]bool   // identities of facts; not changed once the scan has ended
	since   map[string]time.Time     // when a fact was first seen as it is
	gone    map[string]int           // looks in a row that saw no disk, by path
	left    map[string]time.Time     // when the first of them was
	faults  map[string]decide.Fault  // of disks that do not answer well, by path
	trouble map[string]*disk.Problem // by class
	looked  map[string]bool          // classes whose directory was read
	ended   time.Time
}

func newSight() sight {
	return sight{facts: map[string]disk.Fact{}, present: map[disk.Identity]bool{}, since: map[string]time.Time{}, gone: map[string]int{}, left: map[string]time.Time{}, faults: map[string]decide.Fault{}, trouble: map[string]*disk.Problem{}, looked: map[string]bool{}}
}

// scans scans on request, and from time to time.
func (a *Agent) scans(ctx context.Context) {
	allowance := allowance{left: lookBurst, at: time.Now()}
	for {
		begin := time.Now()
		soon := a.scan(ctx)
		next := allowance.spend(begin, time.Now())
		pause := a.current().MinResyncPeriod
		pause = min(pause+rand.N(pause), decide.FaultLooks*a.Recheck) // most faults cause no event
		if soon {
			pause = a.Recheck
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.look:
			timer.Stop()
			if !sleep(ctx, max(settle, time.Until(next))) {
				return
			}
		case <-timer.C:
		}
	}
}

// allowance is how much time may still be spent on looking.
type allowance struct {
	left time.Duration
	at   time.Time
}

// spend accounts for a look, and says when the next one may begin.
func (b *allowance) spend(begin, end time.Time) time.Time {
	b.left = min(b.left+time.Duration(float64(end.Sub(b.at))*lookShare), lookBurst) - end.Sub(begin)
	b.at = end
	if b.left >= 0 {
		return end
	}
	wait := min(time.Duration(float64(-b.left)/lookShare), lookPause)
	b.left = max(b.left, -time.Duration(float64(lookPause)*lookShare))
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
func (a *Agent) scan(ctx context.Context) (soon bool) {
	conf := a.current()
	known := a.known(conf)
	a.Records.Recheck()
	begin := time.Now()
	scanned := a.Prober.Scan(ctx, disk.Scan{Folders: conf.folders, Known: known})
	if ctx.Err() != nil {
		return false
	}
	a.health.scanned(begin)
	changed, soon := a.see(conf, known, scanned)
	if len(changed) > 0 {
		klog.FromContext(ctx).V(4).Info("Saw something new", "paths", changed)
	}
	for _, path := range changed {
		a.queue.Add(path)
	}
	a.told.poke()
	return soon
}

// see takes over what a scan found, and returns the paths with something new.
func (a *Agent) see(conf *settings, known []disk.Known, scanned disk.Scanned) (changed []string, soon bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := newSight()
	next.trouble, next.ended = scanned.Trouble, time.Now()
	for _, folder := range conf.folders {
		next.looked[folder.Class] = scanned.Trouble[folder.Class] == nil
		if next.looked[folder.Class] != a.sight.looked[folder.Class] {
			changed = append(changed, a.pathsOf(folder.Class)...)
		}
	}
	for _, fact := range scanned.Facts {
		fact = next.follow(fact, &a.sight, a.Recheck)
		soon = soon || next.faults[fact.HostPath].Changing()
		next.facts[fact.HostPath] = fact
		next.present[fact.Identity] = true
		next.since[fact.HostPath] = next.ended
		if old, ok := a.sight.facts[fact.HostPath]; ok && sameFact(old, fact) {
			next.since[fact.HostPath] = a.sight.since[fact.HostPath]
		}
	}
	for _, path := range paths(next, a.sight, known) {
		key, ok := conf.keyOf(path)
		if ok && !next.looked[key.Class] {
			if fault, known := a.sight.faults[path]; known {
				next.faults[path] = fault
			}
			continue
		}
		s := decide.Slot{Fact: next.fact(path)}
		if ok && s.Vacant() {
			next.miss(path, &a.sight, a.Recheck)
			soon = soon || next.gone[path] < decide.GoneAfter
		}
		if next.differs(path, &a.sight) || a.told.waits(path) {
			changed = append(changed, path)
		}
	}
	a.sight = next
	return changed, soon
}

// follow accounts for what is wrong with a disk, and returns the fact with what is still
// wrong although it is not seen at the moment.
func (s *sight) follow(fact disk.Fact, last *sight, apart time.Duration) disk.Fact {
	fault := last.faults[fact.HostPath].Observe(fact.Problem, s.ended, apart)
	if fault != (decide.Fault{}) {
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
func (s *sight) miss(path string, last *sight, apart time.Duration) {
	s.gone[path], s.left[path] = last.gone[path], last.left[path]
	switch {
	case s.gone[path] == 0:
		s.gone[path], s.left[path] = 1, s.ended
	case s.gone[path] < decide.GoneAfter && s.ended.Sub(s.left[path]) >= apart:
		s.gone[path], s.left[path] = s.gone[path]+1, s.ended
	}
}

// differs reports whether a path has changed.
func (s *sight) differs(path string, last *sight) bool {
	now, before := s.fact(path), last.fact(path)
	if s.faults[path].Failing != last.faults[path].Failing {
		return true
	}
	if now == nil || before == nil {
		return now != before || s.gone[path] != last.gone[path]
	}
	return s.gone[path] != last.gone[path] || !sameFact(*before, *now)
}

func (s *sight) fact(path string) *disk.Fact {
	fact, ok := s.facts[path]
	if !ok {
		return nil
	}
	return &fact
}

// paths are those that either look saw, and those of what is known.
func paths(next, last sight, known []disk.Known) []string {
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
func (a *Agent) known(conf *settings) []disk.Known {
	var all []disk.Known
	for _, record := range a.Records.All() {
		all = append(all, disk.Known{Key: record.Key, HostPath: record.HostPath, Kind: record.Kind, Identity: record.Identity})
	}
	for _, object := range a.volumes.GetStore().List() {
		if v, ok := a.volumeOf(conf, object); ok {
			k := disk.Known{Key: v.Key, HostPath: v.HostPath, Identity: v.Identity, Volume: v.Name}
			if record, ok, err := a.Records.Get(v.Identity); err == nil && ok {
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
func (a *Agent) pathsOf(class string) []string {
	var found []string
	for path, fact := range a.sight.facts {
		if fact.Class == class {
			found = append(found, path)
		}
	}
	for _, object := range a.volumes.GetStore().List() {
		if v, ok := a.volumeOf(a.settings, object); ok && v.Key.Class == class {
			found = append(found, v.HostPath)
		}
	}
	return found
}

// identities are those of the disks that the last scan saw. The caller does not change them.
func (a *Agent) identities() map[disk.Identity]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sight.present
}

// everything puts all slots into the queue.
func (a *Agent) everything() {
	a.mu.Lock()
	all := slices.Collect(maps.Keys(a.sight.facts))
	a.mu.Unlock()
	for _, object := range a.volumes.GetStore().List() {
		all = append(all, pathOf(object))
	}
	for _, path := range all {
		if path != "" {
			a.queue.Add(path)
		}
	}
}

// watchDisks asks for a look whenever something may have changed.
func (a *Agent) watchDisks(ctx context.Context) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() { failed <- a.Prober.Watch(watching, a.current().folders, func() { poke(a.look) }) }()
		poke(a.look) // for what happened before the watch began
		var err error
		select {
		case <-ctx.Done():
		case <-a.rewatch:
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
