// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// process decides on a path and does what was decided: one action, after which the path is
// enqueued again.
func (p *Provisioner) process(ctx context.Context, path string) {
	if left, pending := p.paths.pendingWrite(path, p.volumes.objectsAt(path)); pending {
		p.queue.AddAfter(path, left) // usually the informer's event is earlier
		return
	}
	if p.cleans.Busy(ctx, path) || p.formats.Busy(ctx, path) {
		return // the path is enqueued when that ends
	}
	g, d, err := p.decideSlot(ctx, path)
	if err == nil && ctx.Err() == nil {
		if d.Do != decide.ProveBlank {
			p.proofs.Stop(path)
		}
		d = p.delay(g, d)
		p.status.Decided(&g.Slot, d)
		if g.retryAfter == 0 {
			err = p.act(ctx, g, d)
		}
	}
	switch {
	case ctx.Err() != nil: // questions are not answered then
	case err != nil:
		if !errors.Is(err, decide.ErrStale) && p.status.Failed(&g.Slot, d, err) {
			klog.FromContext(ctx).Error(err, "Action failed; retrying", "action", d.Do, "path", path)
		}
		p.queue.AddRateLimited(path)
	default:
		p.schedule(ctx, g, d)
	}
}

// delay replaces a clean, a blank proof or a mkfs that has failed before by a decision to wait.
func (p *Provisioner) delay(g *gathered, d decide.Decision) decide.Decision {
	var problem *disk.Problem
	switch d.Do {
	case decide.ProveBlank:
		problem, g.retryAfter = p.proofs.Obstacle(g.Path)
	case decide.Clean:
		problem, g.retryAfter = p.cleans.Obstacle(g.Path)
	case decide.MakeFilesystem:
		problem, g.retryAfter = p.formats.Obstacle(g.Path)
	}
	if problem == nil {
		return d
	}
	return decide.Decision{Do: decide.None, State: d.State, Problem: problem}
}

// recheck is when a path is decided on again that waits for something no event reports. The
// interval starts at retryFirst and doubles after each one that has passed. Decisions that
// events cause in between leave it as it is: otherwise frequent events would postpone it.
type recheck struct {
	interval time.Duration
	due      time.Time
}

// next returns how long until the next recheck, with an interval of last at most.
func (r *recheck) next(now time.Time, last time.Duration) time.Duration {
	switch {
	case r.due.IsZero():
		r.interval, r.due = retryFirst, now.Add(retryFirst)
	case !now.Before(r.due):
		r.interval *= 2
		r.due = now.Add(min(r.interval, last))
	}
	r.interval = min(r.interval, last)
	if latest := now.Add(last); r.due.After(latest) { // the path waits for something else now
		r.due = latest
	}
	return r.due.Sub(now)
}

// schedule enqueues a path after its action has succeeded: at once, or for later if it waits for
// something no event reports.
func (p *Provisioner) schedule(ctx context.Context, g *gathered, d decide.Decision) {
	switch {
	case g.retryAfter > 0:
		p.queue.AddAfter(g.Path, g.retryAfter)
		return
	case d.Do == decide.Clean, d.Do == decide.ProveBlank, d.Do == decide.MakeFilesystem:
		return // the path is enqueued when that ends
	}
	p.queue.Forget(g.Path)
	if d.Do != decide.None {
		p.queue.Add(g.Path)
		return
	}
	last := p.recheckInterval(ctx, g, d)
	if fenced := fenceRecheck(g); fenced > 0 && (last == 0 || fenced < last) {
		last = fenced
	}
	p.paths.update(g.Path, func(s *pathState) {
		if last == 0 {
			s.recheck = recheck{}
		} else {
			p.queue.AddAfter(g.Path, s.recheck.next(time.Now(), last))
		}
	})
	if g.Fact == nil && g.Volume == nil { // nothing is kept of the path
		p.cleans.Forget(g.Path)
		p.formats.Forget(g.Path)
		p.proofs.Stop(g.Path)
		p.proofs.Forget(g.Path)
		p.paths.update(g.Path, func(s *pathState) { s.unmanagedPV = "" })
	}
}

// recheckInterval returns the longest time until a path is decided on again that waits for
// something no event reports: a device is closed, a disk is emptied, a question is answered.
// It is zero if events are sufficient.
func (p *Provisioner) recheckInterval(ctx context.Context, g *gathered, d decide.Decision) time.Duration {
	if d.Problem == nil {
		return 0
	}
	if g.Unhealthy && d.State == stowage.EntryFailing {
		p.refreshAnnotations(ctx, g)
		return retainedRecheckLast
	}
	switch d.Problem.Reason {
	case disk.RetainedDirty, disk.VolumeVanished, disk.OtherCluster, disk.OrphanGracePeriod, disk.OrphanCleanWaits: // acknowledgeable
		if p.refreshAnnotations(ctx, g) {
			return retryFirst
		}
		if left := time.Until(g.GraceUntil); d.Problem.Reason == disk.OrphanGracePeriod && left < retainedRecheckLast {
			return max(left, time.Millisecond)
		}
		return retainedRecheckLast
	case disk.IdentityUnproven:
		if g.Former == nil && len(g.Predecessors) == 0 && (g.Volume == nil || g.Fact == nil || !g.Volume.Identity.Moved(g.Fact.Identity)) {
			return 0 // it waits for an annotation of the volume, which is an event
		}
		if p.refreshAnnotations(ctx, g) { // enqueues all paths if the machine is accepted
			return retryFirst
		}
		return retainedRecheckLast
	case disk.NotEmpty:
		if p.refreshAnnotations(ctx, g) {
			return retryFirst
		}
		return dataRecheckLast
	case disk.OtherNodesVolume:
		return dataRecheckLast
	case disk.ForeignVolume: // searched for again by the next decision
		p.paths.update(g.Path, func(s *pathState) { s.unmanagedPV = "" })
		return retryLast
	case disk.InUse, disk.VolumeInUse, disk.Unreadable, disk.IOError, disk.TimedOut, disk.BadRecord:
		return retryLast
	}
	if g.questionFailed {
		return retryLast
	}
	return 0
}

// fencePeriod is the longest time between two checks of a device that a claim may be mounted
// from: writes to a device that is not mounted cause no event. A check reads 72 KiB.
const fencePeriod = 30 * time.Second

// fenceRecheck returns the longest time until a volume's device is read again; zero if
// events are sufficient. The device of a volume without a claim is read when the volume gets
// one, and a mounted device is not formatted.
func fenceRecheck(g *gathered) time.Duration {
	v := g.Volume
	mounted := g.Fact != nil && slices.ContainsFunc(g.Fact.Overlaps, func(place string) bool { return strings.HasPrefix(place, "fs:") })
	if v == nil || v.Link == "" || v.Mode != disk.Filesystem || !v.Claimed || v.Deleting || v.Phase == disk.PhaseReleased ||
		g.Fact == nil || g.Fact.Identity == "" || mounted && g.Link != "" {
		return 0
	}
	return fencePeriod
}
