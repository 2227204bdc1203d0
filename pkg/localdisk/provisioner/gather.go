// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"time"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/localdisk/provisioner/scan"
)

// gathered is a slot, with what actions need.
type gathered struct {
	decide.Slot
	conf  *settings
	known answers // about the disk, so far
	// present are the disks that the last scan found. It is not changed.
	present map[disk.Identity]bool
	// others are further volumes of the same path, which were created by hand.
	others []disk.Volume
	// questionFailed reports whether the decision lacks an answer: the disk is asked again.
	questionFailed bool
	// retryAfter is when a clean or a proof that has failed is retried.
	retryAfter time.Duration
}

// gather collects what is known about a path. Answers about another disk are left out.
func (p *Provisioner) gather(path string, known answers) *gathered {
	conf := p.current()
	key, configured := conf.folders.KeyOf(path)
	g := &gathered{conf: conf}
	state, present, read := p.paths.snapshot(path, key.Class)
	g.Key, g.Path, g.DirectoryRead, g.Since, g.present = key, path, configured && read, state.observed.Since, present
	g.Fact, g.MissedScans, g.Persistent = state.observed.Fact, state.observed.Missed, state.observed.Fault.Failing
	volumes, elsewhere := p.volumes.at(conf, path, g.Fact)
	if len(elsewhere) > 0 {
		g.DuplicatePV = elsewhere[0].Name
	}
	if len(elsewhere) == 1 && elsewhere[0].Key.Class == key.Class && !localpv.Configured(&elsewhere[0], conf.directories) {
		g.Displaced = &elsewhere[0]
	}
	if len(volumes) > 0 {
		g.Volume, g.others = &volumes[0], volumes[1:]
		g.Link = p.linkOf(g.Volume, g.Fact)
	}
	p.addHealth(&g.Slot)
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.Volume != nil {
		g.Key = g.Volume.Key
	}
	class := conf.class(g.Key.Class)
	if class != nil && configured {
		g.Configured, g.Existing, g.Mode = true, decide.Existing(class.ExistingData), disk.Mode(class.VolumeMode)
		g.FSType, g.MountedHere = class.FSType, class.Mount == provisioner.MountAgent
	}
	g.Cluster, g.UnmanagedPV = p.Cluster, state.unmanagedPV
	if g.Volume != nil && g.Fact != nil && g.Volume.Identity.Moved(g.Fact.Identity) && p.formerMachines[g.Volume.Identity.Machine()] {
		g.Volume.Accepted = g.Fact.Identity
	}
	p.addRecords(g)
	if g.Configured && !decide.ForReclaim(&g.Slot) { // a released volume is reclaimed, whatever its name
		g.ByRule = class.Devices != nil
		g.Configured = class.Matches(g.Key.Name) && (!g.ByRule || p.chosen[g.Key])
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
	if known.identity != g.Fact.Identity {
		known = answers{identity: g.Fact.Identity}
	}
	g.known, g.Answers = known, known.Answers
	if g.Record != nil {
		g.Cleaner = p.Records.Cleaner(g.Record.Identity)
		g.Stayed = g.Record.Attachment != "" && g.Record.Attachment == g.Fact.Attachment
		g.CleanAllowed = p.granted[g.Record.Acknowledgement()]
		g.GraceUntil = g.Record.Missed.Add(conf.OrphanGracePeriod.Duration)
		g.GraceOver = !g.Record.Missed.IsZero() && !time.Now().Before(g.GraceUntil)
	}
	g.Acknowledged = p.acknowledged(g)
	return g
}

// settings is a configuration, indexed. It is read-only.
type settings struct {
	*provisioner.ProvisionerConfiguration
	directories map[string]string // the discovery directory of each class, as a path on the node
	folders     scan.Folders
}

func newSettings(config *provisioner.ProvisionerConfiguration) *settings {
	return &settings{ProvisionerConfiguration: config, directories: config.Directories(), folders: scan.FoldersOf(config)}
}

// class returns the configuration of a class; nil if it is not configured.
func (s *settings) class(name string) *provisioner.Class {
	if class, ok := s.Classes[name]; ok {
		return &class
	}
	return nil
}

// current returns the configuration in force.
func (p *Provisioner) current() *settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

// addRecords adds the records of the path's disk and of the volume's.
func (p *Provisioner) addRecords(g *gathered) {
	if g.Fact != nil && g.Fact.Identity != "" {
		record, ok, err := p.Records.Get(g.Fact.Identity)
		g.Damaged = err != nil || !ok && g.Fact.Identity.Weak() && len(p.Records.DamagedAt(g.Path)) > 0
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

// linkOf returns the device node that a volume's link leads to, or that is mounted at its path;
// empty if there is neither. If that cannot be read, or is not the disk at the path, it is
// something else, so that the link or mount is replaced or removed.
func (p *Provisioner) linkOf(v *disk.Volume, fact *disk.Fact) string {
	if v.Link == "" {
		return ""
	}
	target, err := p.Fence.LinkTarget(v.Link)
	switch {
	case err != nil:
		return "?"
	case v.Mounted() && fact != nil && target == fact.Place:
		return fact.Device
	default:
		return target
	}
}

// acknowledged reports whether an administrator wants a disk published with its data. The
// caller holds mu.
func (p *Provisioner) acknowledged(g *gathered) bool {
	name := g.Slot.Acknowledgement()
	return name != "" && p.accepted[name]
}
