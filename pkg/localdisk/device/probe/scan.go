// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Scan examines every entry that matches the folders' patterns and every known slot of their
// classes. A class has at most one folder. A slot without an entry, or with a dangling link,
// has no fact; neither has lost+found. Known slots of a class without a folder are
// skipped. If ctx ends, or the mount tables cannot be read, every class is in Trouble, and
// nothing is known about any slot.
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
	examined := each(p.parallel, p.entriesOf(v, listings, s.Known), func(e *entry) *disk.Fact { return p.examine(ctx, e) })
	if ctx.Err() != nil {
		return nothing(s, ctx.Err())
	}
	survey, err := p.cfg.Usage.Survey(v.host, v.onTheHost(listings))
	if err != nil {
		return nothing(s, err) // any of the disks may be in use
	}
	slots := slotsOf(s.Known)
	var facts []disk.Fact
	for _, f := range examined {
		if f != nil {
			facts = append(facts, checkUsers(survey, *f, slots[f.Key].volume))
		}
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
	all := each(p.parallel, folders, func(f disk.Folder) *listing {
		l, problem := callWithin(ctx, p, "folder "+f.Path, func() *listing { return v.list(f) })
		if problem != nil {
			return &listing{problem: problem}
		}
		return l
	})
	var listings []*listing
	trouble := make(map[string]*disk.Problem)
	for i, l := range all {
		if l.problem != nil {
			trouble[folders[i].Class] = l.problem
		} else {
			listings = append(listings, l)
		}
	}
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
	return slices.Collect(maps.Values(entries))
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

// examine examines an entry within the timeout.
func (p *Prober) examine(ctx context.Context, e *entry) *disk.Fact {
	// A copy, since the examination may still write to the fact after the timeout.
	unanswered := e.fact
	f, problem := callWithin(ctx, p, unanswered.Path, e.examine)
	if problem != nil {
		unanswered.Problem = problem
		return &unanswered
	}
	return f
}

// each calls do for all arguments, so many at a time, and returns the results in order.
func each[T, R any](parallel int, all []T, do func(T) R) []R {
	results := make([]R, len(all))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i := range all {
		group.Go(func() error { results[i] = do(all[i]); return nil })
	}
	_ = group.Wait()
	return results
}

// listing is a discovery directory that has been read.
type listing struct {
	disk.Folder
	// at is Path without symlinks.
	at string
	// mount is the directory's mount, mountID the kernel's ID of it.
	mount   *mounts.Mount
	mountID uint64
	// names are the entries that match the class's patterns.
	names []string
	// problem is why it was not read.
	problem *disk.Problem
}

// place is where on its file system the directory is.
func (l *listing) place() string { return l.mount.Place(l.at) }

func (v *view) list(f disk.Folder) *listing {
	if !path.IsAbs(f.Path) || !path.IsAbs(f.HostPath) {
		return &listing{problem: disk.Problemf(disk.Unreadable, "the discovery directory %s is not an absolute path", f.HostPath)}
	}
	at, st, err := v.walk("/", f.Path)
	if err != nil {
		return troubleOf(f, err)
	}
	m, ok := v.self.Over(at)
	if !ok {
		return &listing{problem: disk.Problemf(disk.Unreadable, "the discovery directory %s is on no known mount", f.HostPath)}
	}
	names, err := entries(at)
	if err != nil {
		return troubleOf(f, err)
	}
	l := &listing{Folder: f, at: at, mount: m, mountID: st.Mnt_id}
	for _, name := range names {
		wanted, err := matches(f.Names, name)
		if err != nil {
			return troubleOf(f, err)
		}
		if wanted || len(f.Names) == 0 {
			l.names = append(l.names, name)
		}
	}
	return l
}

func troubleOf(f disk.Folder, err error) *listing {
	if gone(err) {
		return &listing{problem: disk.Problemf(disk.Unreadable, "the discovery directory %s does not exist, or cannot be seen from the provisioner's container: create it", f.HostPath)}
	}
	return &listing{problem: disk.Problemf(disk.Unreadable, "the discovery directory %s cannot be read: %v", f.HostPath, err)}
}

// entries returns the names in a directory. It does not update the directory's access time if
// that is permitted.
func entries(at string) ([]string, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOFOLLOW
	fd, err := unix.Open(at, flags|unix.O_NOATIME, 0)
	if errors.Is(err, unix.EPERM) { // the directory is another user's
		fd, err = unix.Open(at, flags, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: at, Err: err}
	}
	folder := os.NewFile(uintptr(fd), at)
	defer folder.Close()
	return folder.Readdirnames(-1)
}

// matches reports whether one of the patterns matches.
func matches(patterns []string, name string) (bool, error) {
	for _, pattern := range patterns {
		ok, err := path.Match(pattern, name)
		if err != nil {
			return false, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}
