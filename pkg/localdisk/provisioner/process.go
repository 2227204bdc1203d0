// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/localdisk/discovery"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/fence"
	"stowage.dev/stowage/pkg/localdisk/reclaim"
	"stowage.dev/stowage/pkg/localdisk/slot"
	"stowage.dev/stowage/pkg/logkeys"
)

// errAgain says that what a decision rested on is not so any more.
var errStale = errors.New("something has changed meanwhile")

// process brings a slot as far as it can go now.
func (p *Provisioner) process(ctx context.Context, path string) {
	left, pending := p.expects.pending(path, p.cachedPVs(path))
	if pending {
		p.queue.AddAfter(path, left) // the informer's event comes first, as a rule
		return
	}
	if p.cleans.busy(ctx, path) {
		return // the end of the clean puts the path back
	}
	g, d, err := p.decideSlot(ctx, path)
	if ctx.Err() != nil {
		return // what was not answered was not asked long enough
	}
	if err == nil {
		if d.Do != slot.ProveBlank {
			p.proofs.stop(path)
		}
		left, d = p.withBackoff(path, d)
		p.status.decided(g, d)
		if g.Fact == nil && g.Volume == nil {
			p.forget(path)
		}
		if left > 0 {
			p.queue.AddAfter(path, left)
			return
		}
		err = p.act(ctx, g, d)
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errStale):
		p.queue.AddRateLimited(path)
	case err != nil:
		if fresh := p.status.failed(g, d, err); fresh {
			klog.FromContext(ctx).Error(err, "Cannot do what was decided, and will try again", "action", d.Do, "path", path)
		}
		p.queue.AddRateLimited(path)
	case d.Do == slot.Wipe || d.Do == slot.ProveBlank: // the end of that puts the path back
	case d.Do != slot.None:
		p.queue.Forget(path)
		p.queue.Add(path)
	default:
		p.queue.Forget(path)
		p.scheduleRecheck(ctx, g, d)
	}
}

// wait has a slot that cannot go on now looked at again, if no event will be the occasion.
func (p *Provisioner) scheduleRecheck(ctx context.Context, g *gathered, d slot.Decision) {
	last := p.recheckInterval(ctx, g, d)
	if fenced := fenceRecheck(g); fenced > 0 && (last == 0 || fenced < last) {
		last = fenced
	}
	if last == 0 {
		p.waits.forget(g.path)
		return
	}
	p.queue.AddAfter(g.path, p.waits.next(g.path, last))
}

// forget drops what is known of a slot that is not there any more.
func (p *Provisioner) forget(path string) {
	p.cleans.forget(path)
	p.proofs.stop(path)
	p.proofs.forget(path)
	p.waits.forget(path)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.foreign, path)
}

// delayed puts a clean or a blank proof off that has failed before.
func (p *Provisioner) withBackoff(path string, d slot.Decision) (time.Duration, slot.Decision) {
	if d.Do == slot.ProveBlank {
		if problem, left := p.proofs.obstacle(path); problem != nil {
			return left, slot.Decision{Do: slot.None, State: d.State, Problem: problem}
		}
	}
	if d.Do != slot.Wipe {
		return 0, d
	}
	left, failure := p.cleans.backoff(path)
	if left <= 0 {
		return 0, d
	}
	problem, known := errors.AsType[*disk.Problem](failure.last)
	if !known || problem.Reason != disk.VolumeInUse && problem.Reason != disk.JobRefused {
		problem = disk.Problemf(disk.CleanFailed, "attempt %d failed: %v", failure.attempts, failure.last)
	}
	return left, slot.Decision{Do: slot.None, State: d.State, Problem: problem}
}

func (p *Provisioner) cachedPVs(path string) []*corev1.PersistentVolume {
	objects, err := p.volumes.GetIndexer().ByIndex(byPath, path)
	if err != nil {
		return nil
	}
	var found []*corev1.PersistentVolume
	for _, object := range objects {
		if volume, ok := asVolume(object); ok {
			found = append(found, volume)
		}
	}
	return found
}

// consider decides about a slot, and finds out what the decision asks for. An error
// says that the API server could not be asked.
func (p *Provisioner) decideSlot(ctx context.Context, path string) (*gathered, slot.Decision, error) {
	var known answers
	sought := false
	for {
		g := p.gather(path, known)
		d := p.decide(g)
		var err error
		switch {
		case !sought && g.Volume == nil && (d.Do == slot.Inspect || d.Do == slot.Wipe || d.Do == slot.MarkRetained):
			// Whose data it is comes before what it is.
			if err := p.findForeignPV(ctx, g); err != nil && !errors.Is(err, errStale) {
				return g, d, err
			}
			sought = true
		case d.Do == slot.AskNodes:
			if known, err = p.askNodes(ctx, g); err != nil {
				return g, d, err
			}
		case d.Do == slot.FindUsers:
			known, err = p.findUsers(ctx, g)
		case d.Do == slot.Inspect:
			known, err = p.inspect(ctx, g)
		case d.Do == slot.ReadSuperblock:
			known = p.readSuperblock(ctx, g)
		default:
			return g, d, nil
		}
		if err != nil {
			g.questionFailed = true
			return g, slot.Decision{Do: slot.None, State: d.State, Problem: asProblem(err)}, nil
		}
	}
}

// unanswered is why something could not be found out.
func asProblem(err error) *disk.Problem {
	if problem, ok := errors.AsType[*disk.Problem](err); ok {
		return problem
	}
	return disk.Problemf(disk.Unreadable, "%v", err)
}

func (p *Provisioner) decide(g *gathered) slot.Decision {
	return fence.With(p.decideVolume(g), fence.Decide(&g.Slot))
}

func (p *Provisioner) decideVolume(g *gathered) slot.Decision {
	if reclaim.Concerns(&g.Slot) {
		return reclaim.Decide(&g.Slot)
	}
	return discovery.Decide(&g.Slot, firstGeneration(g.conf.classes[g.Key.Class], g.since))
}

// users finds out who uses the slot's disk. Not to know is no answer.
func (p *Provisioner) findUsers(ctx context.Context, g *gathered) (answers, error) {
	users, err := ask(ctx, &p.asking, g.path, g.conf.ProbeTimeout, func(ctx context.Context) ([]disk.User, error) {
		return p.Inspector.Users(ctx, *g.Fact, g.volumeName())
	})
	if err != nil {
		return answers{}, fmt.Errorf("find out who uses %s: %w", g.path, err)
	}
	known := g.answers()
	known.users, known.usersKnown = users, true
	return known, nil
}

// inspect finds out whether the slot's disk holds data.
func (p *Provisioner) inspect(ctx context.Context, g *gathered) (answers, error) {
	proof, running := p.proofs.result(g.path, g.Fact.Identity)
	if running { // the proof reads what there is to read
		known := g.answers()
		known.content = disk.ContentSampled
		return known, nil
	}
	known, err := ask(ctx, &p.asking, g.path, g.conf.ProbeTimeout, func(ctx context.Context) (answers, error) {
		known := g.answers()
		var err error
		if g.AsPublished() {
			known.content, known.found, err = p.Inspector.Cleaned(ctx, *g.Fact, p.modeOf(g))
			return known, err
		}
		suspect := int64(-1)
		if proof.Found {
			suspect = proof.Done
		}
		known.content, known.found, err = p.Inspector.Inspect(ctx, *g.Fact, suspect)
		if err == nil && known.content == disk.ContentSampled && proof.Complete() {
			known.content, err = p.verifyProof(ctx, g, proof)
		}
		return known, err
	})
	if err != nil {
		return answers{}, fmt.Errorf("look into %s: %w", g.path, err)
	}
	if known.content == disk.ContentUnknown {
		return answers{}, fmt.Errorf("look into %s: no answer", g.path)
	}
	return known, nil
}

// holds checks that a complete proof still holds: that nothing was written since.
func (p *Provisioner) verifyProof(ctx context.Context, g *gathered, proof disk.BlankProof) (disk.Content, error) {
	_, err := p.Inspector.ProveBlank(ctx, disk.BlankProofRequest{Target: *g.Fact, From: proof}, func(disk.BlankProof) error { return nil })
	switch {
	case err == nil:
		return disk.ContentNone, nil
	case errors.Is(err, disk.ErrBlankProofVoid):
		p.proofs.drop(g.Fact.Identity)
		return disk.ContentSampled, nil
	default:
		return disk.ContentUnknown, err
	}
}

// volumeName is the volume whose uses of the disk are known to the node.
func (g *gathered) volumeName() string {
	switch {
	case g.Volume != nil:
		return g.Volume.Name
	case g.Record != nil:
		return g.Record.Volume
	default:
		return ""
	}
}

// modeOf is the mode that the slot's disk is or will be offered in.
func (p *Provisioner) modeOf(g *gathered) disk.Mode {
	if g.Volume != nil {
		return g.Volume.Mode
	}
	if g.Record != nil && g.Record.State.Dirty() && g.Record.Mode != "" {
		return g.Record.Mode
	}
	if class := g.conf.classes[g.Key.Class]; class != nil {
		return disk.Mode(class.VolumeMode)
	}
	return disk.Filesystem
}

// act does the one thing that was decided.
func (p *Provisioner) act(ctx context.Context, g *gathered, d slot.Decision) error {
	if err := p.removeOtherFinalizers(ctx, g); err != nil {
		return err
	}
	if d.Do != slot.None {
		klog.FromContext(ctx).V(4).Info("Decided", "action", d.Do, "path", g.path, logkeys.Volume, klog.KRef("", g.volumeName()))
	}
	switch d.Do {
	case slot.Create:
		return p.create(ctx, g, d.Generation)
	case slot.WriteRecord:
		return p.writeRecord(ctx, g)
	case slot.AddFinalizer:
		return p.addFinalizer(ctx, g)
	case slot.MarkDisk:
		return p.markDisk(ctx, g, d.Mark)
	case slot.RecordFilesystem:
		return p.recordFilesystem(ctx, g)
	case slot.AddLink:
		return p.addLink(ctx, g)
	case slot.RemoveLink:
		return p.removeLink(ctx, g, d)
	case slot.Remove:
		return p.deletePV(ctx, g, d)
	case slot.Wipe:
		return p.cleans.begin(ctx, g, d.Generation)
	case slot.ProveBlank:
		p.proofs.start(ctx, &proof{attempt: attempt{gathered: g}})
		return nil
	case slot.CleanLater:
		return p.cleanLater(g)
	case slot.Miss:
		return p.miss(ctx, g)
	case slot.MarkRetained:
		return p.markRetained(ctx, g)
	case slot.MarkClean:
		return p.markClean(ctx, g, d.Generation)
	case slot.RemoveFinalizer:
		return p.removeFinalizer(ctx, g.Volume)
	default:
		return nil
	}
}

// reconsider reports whether a slot waits for something that no event reports: that a
// device is not open any more, that a disk was emptied, that a question is answered. The
// answer is how long at most it goes without being looked at; zero if events will do.
func (p *Provisioner) recheckInterval(ctx context.Context, g *gathered, d slot.Decision) time.Duration {
	if d.Problem == nil {
		return 0
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
			return 0 // the volume's own annotation is an event
		}
		if p.refreshAnnotations(ctx, g) { // it has the slot decided about again, if the machine is accepted
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
	case disk.ForeignVolume: // it is looked for again before the disk is
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.foreign, g.path)
		return retryLast
	case disk.InUse, disk.VolumeInUse, disk.Unreadable, disk.IOError, disk.TimedOut, disk.BadRecord:
		return retryLast
	}
	if g.questionFailed {
		return retryLast
	}
	return 0
}
