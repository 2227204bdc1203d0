// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"cmp"

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// healthTargets returns the disks whose health is watched: those of mounted file systems and of
// devices. Directories are on a disk of the node.
func (p *Provisioner) healthTargets() []disk.HealthTarget {
	var targets []disk.HealthTarget
	for _, fact := range p.paths.disks() {
		if fact.Kind == disk.Directory {
			continue
		}
		record, ok, err := p.Records.Get(fact.Identity)
		targets = append(targets, disk.HealthTarget{
			Identity: fact.Identity, Places: append([]string{fact.Place}, fact.Overlaps...), Probe: ok && err == nil && record.State == disk.Published,
		})
	}
	return targets
}

// healthChanged is called when the health of a disk has changed.
func (p *Provisioner) healthChanged() {
	p.enqueue("")
	p.scanner.Request()
}

// healthOf returns the health of a disk.
func (p *Provisioner) healthOf(identity disk.Identity) disk.Health {
	if p.diskHealth == nil {
		return disk.Health{}
	}
	return p.diskHealth.Of(identity)
}

// addHealth adds the health of the disk at a path. A disk that does not answer may show no
// identity; then it is the volume's.
func (p *Provisioner) addHealth(s *decide.Slot) {
	if s.Fact == nil {
		return
	}
	identity := s.Fact.Identity
	if s.Volume != nil {
		identity = cmp.Or(identity, s.Volume.Identity)
	}
	s.AddHealth(new(p.healthOf(identity)), identity)
}
