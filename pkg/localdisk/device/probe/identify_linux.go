// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"path"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Identify returns the identity of what is at a fact's path now, to verify it before data is
// destroyed. Nothing is cached. An error is a *disk.Problem: Missing if nothing is there,
// MountMissing if a mount is missing (never the identity of the directory below), Replaced if
// something of another kind is there, else why it cannot be determined.
func (p *Prober) Identify(ctx context.Context, f disk.Fact) (disk.Identity, error) {
	v, err := p.view()
	if err != nil {
		return "", disk.Problemf(disk.Unreadable, "%s was not examined: %v", f.HostPath, err)
	}
	now, problem := ask(ctx, &p.workers, f.Path, p.patience(), func() found { return p.identify(v, f) })
	switch {
	case problem != nil:
		return "", problem
	case !now.present:
		return "", disk.Problemf(disk.Missing, "nothing is at %s", f.HostPath)
	case f.Kind != "" && now.fact.Kind != "" && now.fact.Kind != f.Kind:
		if f.Kind == disk.Mount && now.fact.Kind == disk.Directory {
			return "", disk.Problemf(disk.MountMissing, "nothing is mounted at %s", f.HostPath)
		}
		return "", disk.Problemf(disk.Replaced, "at %s is now a %s, and was a %s", f.HostPath, now.fact.Kind, f.Kind)
	case now.fact.Identity == "" && now.fact.Problem != nil:
		return "", now.fact.Problem
	case now.fact.Identity == "":
		return "", disk.Problemf(disk.Unreadable, "what is at %s cannot be identified", f.HostPath)
	}
	return now.fact.Identity, nil
}

// identify examines a path as an entry of its folder.
func (p *Prober) identify(v *view, f disk.Fact) found {
	folder := disk.Folder{
		Class: f.Class, Path: path.Dir(f.Path), HostPath: path.Dir(f.HostPath), Mode: disk.Filesystem,
	}
	if f.Kind == disk.Directory {
		folder.Directories = []string{"*"}
	}
	at, st, err := v.walk("/", folder.Path)
	l := &listing{Folder: folder, at: at}
	e := p.entry(v, l, path.Base(f.Path))
	e.wasMount, e.fresh = f.Kind == disk.Mount, true
	if err != nil {
		return e.fail(err)
	}
	m, ok := v.self.Over(at)
	if !ok {
		return e.refuse(disk.Unreadable, "%s is on no known mount", f.HostPath)
	}
	l.mount, l.mountID = m, st.Mnt_id
	return e.look()
}
