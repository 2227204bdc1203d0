// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// formerRecord is the record of a disk that differs from this one in the machine only; nil
// if there is none. One of a disk that may hold data goes first.
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

// acceptMachine reads which former machine an administrator declares to be this one, gives
// the records of its disks their present identity, and has all slots decided about again.
// What names another machine than this one is without effect: it is from before the next
// exchange, or meant for another node.
func (p *Provisioner) acceptMachine(ctx context.Context, report *stowage.LocalDiskReport) {
	before, now, ok := strings.Cut(report.Annotations[wellknown.SameMachineAnnotation], ":")
	former := map[string]bool{}
	if ok && before != "" && now == p.Machine && before != now {
		former[before] = true
	}
	p.mu.Lock()
	known := len(former) == len(p.formerMachines) && p.formerMachines[before] == former[before]
	p.mu.Unlock()
	if known {
		return
	}
	if len(former) > 0 {
		if err := p.carryOver(before); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot carry records over to the new machine, and will try again", "machine", before)
			return
		}
		klog.FromContext(ctx).V(2).Info("Accepted that the machine was exchanged", "before", before, "now", now)
	}
	p.mu.Lock()
	p.formerMachines = former
	p.mu.Unlock()
	p.enqueueAll()
}

// carryOver gives the records of a former machine the identities that their disks have now.
// It may be repeated after an interruption.
func (p *Provisioner) carryOver(machine string) error {
	var problems error
	for _, record := range p.Records.All() {
		before := record.Identity
		record.Identity = before.On(p.Machine)
		if before.Machine() != machine || record.Identity == before {
			continue
		}
		present, ok, err := p.Records.Get(record.Identity)
		switch {
		case err != nil:
			problems = errors.Join(problems, fmt.Errorf("carry over the record of %s: %w", before, err))
			continue
		case ok && (present.Volume != record.Volume || present.UID != record.UID):
			continue // the disk has been in use since under its present identity
		case !ok:
			if err := p.Records.Put(record); err != nil {
				problems = errors.Join(problems, err)
				continue
			}
		}
		problems = errors.Join(problems, p.Records.Delete(before))
	}
	return problems
}
