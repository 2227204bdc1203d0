// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"time"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// gathered is a slot, with what actions need.
type gathered struct {
	decide.Slot
	path  string
	conf  *settings
	known answers // about the disk, so far
	// since is when the disk was first found as it is.
	since time.Time
	// others are further volumes of the same path, which were created by hand.
	others []disk.Volume
	// questionFailed reports whether the decision lacks an answer: the disk is asked again.
	questionFailed bool
}

// gather collects what is known about a path. Answers about another disk are left out.
func (p *Provisioner) gather(path string, known answers) *gathered {
	conf := p.current()
	key, configured := conf.keyOf(path)
	g := &gathered{path: path, conf: conf}
	if volumes := p.volumes.at(conf, path); len(volumes) > 0 {
		g.Volume, g.others = &volumes[0], volumes[1:]
		g.Link = p.linkOf(g.Volume)
	}
	state, present, read := p.paths.snapshot(path, key.Class)
	g.Key, g.Looked, g.since = key, configured && read, state.observed.since
	g.Fact, g.Gone, g.Persistent = state.observed.fact, state.observed.gone, state.observed.fault.Failing
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.Volume != nil {
		g.Key = g.Volume.Key
	}
	if class := conf.class(g.Key.Class); class != nil && configured {
		g.Configured, g.Existing, g.Mode = true, existing(class), disk.Mode(class.VolumeMode)
	}
	g.Cluster, g.Foreign = p.Cluster, state.unmanagedPV
	if g.Volume != nil && g.Fact != nil && g.Volume.Identity.Moved(g.Fact.Identity) && p.formerMachines[g.Volume.Identity.Machine()] {
		g.Volume.Accepted = g.Fact.Identity
	}
	p.addRecords(g)
	if g.Configured && !decide.ForReclaim(&g.Slot) { // a released volume is reclaimed, whatever its name
		g.Configured = conf.class(g.Key.Class).Matches(g.Key.Name)
	}
	if g.Fact == nil || g.Fact.Identity == "" {
		return g
	}
	if g.Record == nil && g.Volume == nil && !g.Damaged {
		var weak []disk.Identity
		if g.Fact.Identity.Weak() {
			weak = p.Records.DirtyWeak()
		}
		g.Predecessors, g.Unaccounted = decide.Predecessors(g.Fact.Identity, p.Records.ByPath(path), weak, present)
	}
	g.Elsewhere = p.volumes.elsewhere(conf, path, g.Fact.Identity)
	if known.identity != g.Fact.Identity {
		known = answers{identity: g.Fact.Identity}
	}
	g.known = known
	g.Content, g.Found, g.Users, g.UsersKnown, g.Asked = known.content, known.found, known.users, known.usersKnown, known.asked
	g.ForeignPV, g.Superblock = known.foreignPV, known.superblock
	if g.Record != nil {
		g.Cleaner = p.Records.Cleaner(g.Record.Identity)
		g.Stayed = g.Record.Attachment != "" && g.Record.Attachment == g.Fact.Attachment
		g.Granted = p.granted[g.Record.Acknowledgement()]
		g.GraceUntil = g.Record.Missed.Add(conf.OrphanGracePeriod.Duration)
		g.GraceOver = !g.Record.Missed.IsZero() && !time.Now().Before(g.GraceUntil)
	}
	g.Acknowledged = p.acknowledged(g)
	return g
}

// existing returns what a class does with data that is found.
func existing(class *provisioner.Class) decide.Existing {
	switch class.ExistingData {
	case provisioner.ExistingDataPublish:
		return decide.ExistingPublish
	case provisioner.ExistingDataClean:
		return decide.ExistingClean
	case provisioner.ExistingDataAssumeBlank:
		return decide.ExistingAssumeBlank
	default:
		return decide.ExistingRefuse
	}
}

// addRecords adds the records of the path's disk and of the volume's.
func (p *Provisioner) addRecords(g *gathered) {
	if g.Fact != nil && g.Fact.Identity != "" {
		record, ok, err := p.Records.Get(g.Fact.Identity)
		g.Damaged = err != nil || !ok && g.Fact.Identity.Weak() && len(p.Records.DamagedAt(g.path)) > 0
		if ok && err == nil {
			g.Record = &record
		} else if !ok && err == nil {
			g.Former = p.formerRecord(g.Fact.Identity)
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
		record, ok, err := p.Records.Get(g.Volume.Identity)
		switch {
		case err == nil && ok:
			g.VolumeRecord = &record
		case g.Record != nil && g.Record.Volume == g.Volume.Name && g.Match() == disk.Same:
			g.VolumeRecord = g.Record // rewritten for another mainboard, or for the accepted identity
		default:
			g.Rebuilt = err == nil
		}
	}
}

// formerRecord returns the record of a disk that differs from this one in the machine only;
// nil if there is none. A dirty record has precedence.
func (p *Provisioner) formerRecord(identity disk.Identity) *disk.Record {
	if identity.Machine() == "" {
		return nil
	}
	var found *disk.Record
	for _, record := range p.Records.ByName(identity.Name()) {
		if record.Identity.Moved(identity) && (found == nil || record.State.Dirty() && !found.State.Dirty()) {
			found = &record
		}
	}
	return found
}

// linkOf returns the target of a volume's link; empty if there is none. The target of a link
// that cannot be read is "?", so that the link is replaced or removed.
func (p *Provisioner) linkOf(v *disk.Volume) string {
	if v.Link == "" {
		return ""
	}
	target, err := p.Fence.LinkTarget(v.Link)
	if err != nil {
		return "?"
	}
	return target
}

// acknowledged reports whether an administrator wants a disk published with its data. The
// caller holds mu.
func (p *Provisioner) acknowledged(g *gathered) bool {
	name := g.Slot.Acknowledgement()
	return name != "" && p.accepted[name]
}
