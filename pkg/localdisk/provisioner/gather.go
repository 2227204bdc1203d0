// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"time"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// learned is what was found out about a disk while its slot is decided about. It is
// never kept for another time: by then the disk may have been emptied or filled.
type learned struct {
	identity   disk.Identity
	content    disk.Content
	found      string
	users      []disk.User
	usersKnown bool
	asked      bool
	claimant   string
	superblock *disk.Superblock
}

// gathered is a slot with what acting on it takes.
type gathered struct {
	decide.Slot
	path string
	conf *settings
	// since is when the disk was first seen as it is.
	since time.Time
	// others are further volumes of the same path. They exist only if they were
	// made by hand.
	others []disk.Volume
	// unanswered says that the decision lacks an answer, for which the disk has to be
	// asked again.
	unanswered bool
}

// gather collects all that is known about a path, and what was learned of its disk.
func (a *Agent) gather(path string, l learned) *gathered {
	conf := a.current()
	g := &gathered{path: path, conf: conf}
	if volumes := a.at(conf, path); len(volumes) > 0 {
		g.Volume, g.others = &volumes[0], volumes[1:]
		g.Link = a.linkOf(g.Volume) // reads a file: not while others wait for mu
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g.since = a.sight.since[path]
	key, configured := conf.keyOf(path)
	g.Key, g.Looked = key, configured && a.sight.looked[key.Class]
	g.Fact, g.Gone, g.Persistent = a.sight.fact(path), a.sight.gone[path], a.sight.faults[path].Failing
	if g.Volume != nil {
		g.Key = g.Volume.Key
	}
	if class := conf.classes[g.Key.Class]; class != nil && configured {
		g.Configured, g.Existing, g.Mode = true, existing(class), disk.Mode(class.VolumeMode)
	}
	g.Cluster, g.Foreign = a.Cluster, a.foreign[path]
	if g.Volume != nil && g.Fact != nil && g.Volume.Identity.Moved(g.Fact.Identity) && a.former[g.Volume.Identity.Machine()] {
		g.Volume.Accepted = g.Fact.Identity
	}
	a.recall(g)
	if g.Configured && !decide.ForReclaim(&g.Slot) { // what is given back is cleaned, whatever it is called
		g.Configured = conf.named(g.Key)
	}
	if g.Fact == nil || g.Fact.Identity == "" {
		return g
	}
	if g.Record == nil && g.Volume == nil && !g.Damaged {
		var weak []disk.Identity
		if g.Fact.Identity.Weak() {
			weak = a.Records.DirtyWeak()
		}
		g.Predecessors, g.Unaccounted = decide.Predecessors(g.Fact.Identity, a.Records.ByPath(path), weak, a.sight.present)
	}
	g.Elsewhere = a.elsewhere(conf, path, g.Fact.Identity)
	if l.identity == g.Fact.Identity {
		g.Content, g.Found, g.Users, g.UsersKnown, g.Asked, g.Claimant = l.content, l.found, l.users, l.usersKnown, l.asked, l.claimant
		g.Superblock = l.superblock
	}
	if g.Record != nil {
		g.Cleaner = a.Records.Cleaner(g.Record.Identity)
		g.Stayed = g.Record.Attachment != "" && g.Record.Attachment == g.Fact.Attachment
		g.Granted = a.granted[g.Record.Acknowledgement()]
		g.GraceUntil = g.Record.Missed.Add(conf.OrphanGracePeriod)
		g.GraceOver = !g.Record.Missed.IsZero() && !time.Now().Before(g.GraceUntil)
	}
	g.Acknowledged = a.acknowledged(g)
	return g
}

// learned is what was found out about the disk so far.
func (g *gathered) learned() learned {
	return learned{
		identity: g.Fact.Identity, content: g.Content, found: g.Found, users: g.Users, usersKnown: g.UsersKnown, asked: g.Asked, claimant: g.Claimant, superblock: g.Superblock,
	}
}

// recall adds what the node remembers.
func (a *Agent) recall(g *gathered) {
	if g.Fact != nil && g.Fact.Identity != "" {
		record, ok, err := a.Records.Get(g.Fact.Identity)
		g.Damaged = err != nil || !ok && g.Fact.Identity.Weak() && len(a.Records.DamagedAt(g.path)) > 0
		if ok && err == nil {
			g.Record = &record
		} else if !ok && err == nil {
			g.Former = a.formerRecord(g.Fact.Identity)
		}
	}
	switch {
	case g.Volume == nil:
	case g.Volume.Identity == "":
		if g.Record != nil && g.Record.Volume == g.Volume.Name {
			g.VolumeRecord = g.Record
		}
	case g.Fact != nil && g.Volume.Identity == g.Fact.Identity:
		g.VolumeRecord = g.Record
	default:
		record, ok, err := a.Records.Get(g.Volume.Identity)
		switch {
		case err == nil && ok:
			g.VolumeRecord = &record
		case g.Record != nil && g.Record.Volume == g.Volume.Name && g.Match() == disk.Same:
			g.VolumeRecord = g.Record // carried over to another mainboard, or to what was accepted
		default:
			g.Rebuilt = err == nil
		}
	}
}
