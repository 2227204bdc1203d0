// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/orphancleans/rules"
)

// ReadAnnotations implements status.Provisioner. It reads the report's annotations: data that an administrator wants published,
// data that the controller allows to be cleaned although its volume is gone, disks that an
// administrator declares to be healthy, and a machine that was exchanged.
func (p *Provisioner) ReadAnnotations(ctx context.Context, report *stowage.LocalDiskReport) {
	p.acceptMachine(ctx, report)
	accepted, granted := namesIn(report, wellknown.PublishRetainedAnnotation), map[string]bool{}
	if p.diskHealth != nil {
		p.diskHealth.Reset(namesIn(report, wellknown.HealthyDisksAnnotation))
	}
	for _, grant := range rules.ParseGrants(report.Annotations[wellknown.CleanOrphansAnnotation]) {
		granted[grant.Data] = true
	}
	p.mu.Lock()
	changed := !maps.Equal(p.accepted, accepted)
	p.accepted, p.granted = accepted, granted
	p.mu.Unlock()
	if changed {
		p.enqueue("")
	}
}

// namesIn returns the names that an annotation lists, separated by commas.
func namesIn(report *stowage.LocalDiskReport, annotation string) map[string]bool {
	names := map[string]bool{}
	for word := range strings.SplitSeq(report.Annotations[annotation], ",") {
		if word = strings.TrimSpace(word); word != "" {
			names[word] = true
		}
	}
	return names
}

// refreshAnnotations reads the annotations from the API server, and returns whether they allow
// something for a slot's disk that was not allowed before.
func (p *Provisioner) refreshAnnotations(ctx context.Context, g *gathered) bool {
	if p.Reports == nil {
		return false
	}
	report, err := p.Reports.Get(ctx, stowage.PageName(p.Node, 1), metav1.GetOptions{})
	if err != nil || report.Spec.NodeName != p.Node {
		return false
	}
	p.ReadAnnotations(ctx, report)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acknowledged(g) && !g.Acknowledged || g.GraceOver && !g.CleanAllowed && p.granted[g.Record.Acknowledgement()]
}

// acceptMachine reads which former machine an administrator declares to be this one, rewrites
// the records of its disks to their present identity, and enqueues all paths. An annotation
// with another machine than this one is ignored: it is from before a further exchange, or
// meant for another node.
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
			klog.FromContext(ctx).Error(err, "Failed to rewrite records for the new machine; retrying", "machine", before)
			return
		}
		klog.FromContext(ctx).V(2).Info("Accepted that the machine was exchanged", "before", before, "now", now)
	}
	p.mu.Lock()
	p.formerMachines = former
	p.mu.Unlock()
	p.enqueue("")
}

// carryOver rewrites the records of a former machine to the present identities of their disks.
// It may be repeated after an interruption.
func (p *Provisioner) carryOver(machine string) error {
	var problems error
	for _, record := range p.Records.All() {
		before := record.Identity
		record.Identity = before.OnMachine(p.Machine)
		if before.Machine() != machine || record.Identity == before {
			continue
		}
		present, ok, err := p.Records.Get(record.Identity)
		switch {
		case err != nil:
			problems = errors.Join(problems, fmt.Errorf("rewrite the record of %s: %w", before, err))
			continue
		case ok && (present.Volume != record.Volume || present.UID != record.UID):
			continue // the disk was used under its present identity since
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
