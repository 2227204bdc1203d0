// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"path"
	"sync"

	"golang.org/x/sync/errgroup"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Scan examines every entry that matches the folders' patterns and every known slot of their
// classes. A class has at most one folder. A slot without an entry, or with a dangling link,
// has no fact; neither has lost+found. Known slots of a class without a folder are
// skipped. If ctx ends, or the mount tables cannot be read, every class is in Trouble, and
// nothing is known of any slot.
//
// A scan takes as long as the slowest entry, and at most the timeout for the folders plus one
// timeout for each 8 entries that do not answer.
func (p *Prober) Scan(ctx context.Context, s disk.Scan) disk.Scanned {
	select {
	case p.scanning <- struct{}{}:
		defer func() { <-p.scanning }()
	case <-ctx.Done():
		return nothing(s, ctx.Err())
	}
	v, err := p.view()
	if err != nil {
		return nothing(s, err)
	}
	listings, trouble := p.listAll(ctx, v, s.Folders)
	facts := p.examineAll(ctx, p.entriesOf(v, listings, s.Known))
	if ctx.Err() != nil {
		return nothing(s, ctx.Err())
	}
	survey, err := p.cfg.Usage.Survey(v.host, v.onTheHost(listings))
	if err != nil {
		return nothing(s, err) // any of the disks may be in use
	}
	slots := slotsOf(s.Known)
	for i, f := range facts {
		facts[i] = checkUsers(survey, f, slots[f.Key].volume)
	}
	return disk.Scanned{Facts: resolveConflicts(facts, s.Known), Trouble: trouble}
}

// nothing is the result of a failed scan.
func nothing(s disk.Scan, err error) disk.Scanned {
	trouble := make(map[string]*disk.Problem, len(s.Folders))
	for _, f := range s.Folders {
		trouble[f.Class] = disk.Problemf(disk.Unreadable, "the discovery directory %s was not examined: %v", f.HostPath, err)
	}
	return disk.Scanned{Facts: map[disk.Key]disk.Fact{}, Trouble: trouble}
}

// listAll reads the folders. Those that could not be read are in trouble.
func (p *Prober) listAll(ctx context.Context, v *view, folders []disk.Folder) ([]*listing, map[string]*disk.Problem) {
	var mu sync.Mutex
	var listings []*listing
	trouble := make(map[string]*disk.Problem)
	p.each(len(folders), func(i int) {
		type answer struct {
			l       *listing
			problem *disk.Problem
		}
		a, problem := callWithin(ctx, &p.workers, "folder "+folders[i].Path, p.currentTimeout(), func() answer {
			l, problem := v.list(folders[i])
			return answer{l, problem}
		})
		if problem == nil {
			problem = a.problem
		}
		mu.Lock()
		defer mu.Unlock()
		if problem != nil {
			trouble[folders[i].Class] = problem
			return
		}
		listings = append(listings, a.l)
	})
	return listings, trouble
}

// entriesOf returns one entry for each slot.
func (p *Prober) entriesOf(v *view, listings []*listing, known []disk.Known) []*entry {
	entries := make(map[disk.Key]*entry)
	folders := make(map[string]*listing)
	add := func(l *listing, name string) *entry {
		key := disk.Key{Class: l.Class, Name: name}
		if entries[key] == nil {
			entries[key] = p.entry(v, l, name)
			entries[key].folders = listings
		}
		return entries[key]
	}
	for _, l := range listings {
		folders[l.Class] = l
		for _, name := range l.names {
			add(l, name)
		}
	}
	for _, k := range known {
		if l := folders[k.Key.Class]; l != nil {
			e := add(l, k.Key.Name)
			e.wasMount = e.wasMount || k.Kind == disk.Mount
		}
	}
	all := make([]*entry, 0, len(entries))
	for _, e := range entries {
		all = append(all, e)
	}
	return all
}

func (p *Prober) entry(v *view, l *listing, name string) *entry {
	return &entry{
		Prober: p, view: v, folder: l,
		at: path.Join(l.at, name),
		fact: disk.Fact{
			Key:      disk.Key{Class: l.Class, Name: name},
			HostPath: path.Join(l.HostPath, name),
			Path:     path.Join(l.Path, name),
		},
	}
}

// examineAll examines all entries and returns their facts.
func (p *Prober) examineAll(ctx context.Context, entries []*entry) []disk.Fact {
	var mu sync.Mutex
	var facts []disk.Fact
	p.each(len(entries), func(i int) {
		f := p.examine(ctx, entries[i])
		mu.Lock()
		defer mu.Unlock()
		if f != nil {
			facts = append(facts, *f)
		}
	})
	return facts
}

// examine examines an entry within the timeout.
func (p *Prober) examine(ctx context.Context, e *entry) *disk.Fact {
	// A copy, since the examination may still write to the fact after the timeout.
	unanswered := e.fact
	f, problem := callWithin(ctx, &p.workers, unanswered.Path, p.currentTimeout(), e.examine)
	if problem != nil {
		unanswered.Problem = problem
		return &unanswered
	}
	return f
}

// each calls do for 0 to n-1, a few at a time, and waits for all.
func (p *Prober) each(n int, do func(int)) {
	var group errgroup.Group
	group.SetLimit(p.parallel)
	for i := range n {
		group.Go(func() error { do(i); return nil })
	}
	_ = group.Wait()
}
