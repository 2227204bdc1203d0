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

	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/logkeys"
)

// errAgain says that what a decision rested on is not so any more.
var errAgain = errors.New("something has changed meanwhile")

// process brings a slot as far as it can go now.
func (a *Agent) process(ctx context.Context, path string) {
	left, pending := a.expects.pending(path, a.volumesAt(path))
	if pending {
		a.queue.AddAfter(path, left) // the informer's event comes first, as a rule
		return
	}
	if a.cleans.busy(ctx, path) {
		return // the end of the clean puts the path back
	}
	g, d, err := a.consider(ctx, path)
	if ctx.Err() != nil {
		return // what was not answered was not asked long enough
	}
	if err == nil {
		if d.Do != decide.ProveBlank {
			a.proofs.stop(path)
		}
		left, d = a.delayed(path, d)
		a.told.decided(g, d)
		if g.Fact == nil && g.Volume == nil {
			a.forget(path)
		}
		if left > 0 {
			a.queue.AddAfter(path, left)
			return
		}
		err = a.act(ctx, g, d)
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errAgain):
		a.queue.AddRateLimited(path)
	case err != nil:
		if fresh := a.told.failed(g, d, err); fresh {
			klog.FromContext(ctx).Error(err, "Cannot do what was decided, and will try again", "action", d.Do, "path", path)
		}
		a.queue.AddRateLimited(path)
	case d.Do == decide.Clean || d.Do == decide.ProveBlank: // the end of that puts the path back
	case d.Do != decide.None:
		a.queue.Forget(path)
		a.queue.Add(path)
	default:
		a.queue.Forget(path)
		a.wait(ctx, g, d)
	}
}

// wait has a slot that cannot go on now looked at again, if no event will be the occasion.
func (a *Agent) wait(ctx context.Context, g *gathered, d decide.Decision) {
	last := a.reconsider(ctx, g, d)
	if fenced := fenceRecheck(g); fenced > 0 && (last == 0 || fenced < last) {
		last = fenced
	}
	if last == 0 {
		a.waits.forget(g.path)
		return
	}
	a.queue.AddAfter(g.path, a.waits.next(g.path, last))
}

// forget drops what is known of a slot that is not there any more.
func (a *Agent) forget(path string) {
	a.cleans.forget(path)
	a.proofs.stop(path)
	a.proofs.forget(path)
	a.waits.forget(path)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.foreign, path)
}

// delayed puts a clean or a blank proof off that has failed before.
func (a *Agent) delayed(path string, d decide.Decision) (time.Duration, decide.Decision) {
	if d.Do == decide.ProveBlank {
		if problem, left := a.proofs.obstacle(path); problem != nil {
			return left, decide.Decision{Do: decide.None, State: d.State, Problem: problem}
		}
	}
	if d.Do != decide.Clean {
		return 0, d
	}
	left, failure := a.cleans.backoff(path)
	if left <= 0 {
		return 0, d
	}
	problem, known := errors.AsType[*disk.Problem](failure.last)
	if !known || problem.Reason != disk.VolumeInUse && problem.Reason != disk.JobRefused {
		problem = disk.Problemf(disk.CleanFailed, "attempt %d failed: %v", failure.attempts, failure.last)
	}
	return left, decide.Decision{Do: decide.None, State: d.State, Problem: problem}
}

func (a *Agent) volumesAt(path string) []*corev1.PersistentVolume {
	objects, err := a.volumes.GetIndexer().ByIndex(byPath, path)
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
func (a *Agent) consider(ctx context.Context, path string) (*gathered, decide.Decision, error) {
	var known learned
	sought := false
	for {
		g := a.gather(path, known)
		d := a.decide(g)
		var err error
		switch {
		case !sought && g.Volume == nil && (d.Do == decide.Inspect || d.Do == decide.Clean || d.Do == decide.MarkRetained):
			// Whose data it is comes before what it is.
			if err := a.findForeign(ctx, g); err != nil && !errors.Is(err, errAgain) {
				return g, d, err
			}
			sought = true
		case d.Do == decide.AskNodes:
			if known, err = a.askNodes(ctx, g); err != nil {
				return g, d, err
			}
		case d.Do == decide.FindUsers:
			known, err = a.users(ctx, g)
		case d.Do == decide.Inspect:
			known, err = a.inspect(ctx, g)
		case d.Do == decide.ReadSuperblock:
			known = a.readSuperblock(ctx, g)
		default:
			return g, d, nil
		}
		if err != nil {
			g.unanswered = true
			return g, decide.Decision{Do: decide.None, State: d.State, Problem: unanswered(err)}, nil
		}
	}
}

// unanswered is why something could not be found out.
func unanswered(err error) *disk.Problem {
	if problem, ok := errors.AsType[*disk.Problem](err); ok {
		return problem
	}
	return disk.Problemf(disk.Unreadable, "%v", err)
}

func (a *Agent) decide(g *gathered) decide.Decision {
	return decide.WithLink(a.decideVolume(g), decide.Link(&g.Slot))
}

func (a *Agent) decideVolume(g *gathered) decide.Decision {
	if decide.ForReclaim(&g.Slot) {
		return decide.Reclaim(&g.Slot)
	}
	return decide.Publish(&g.Slot, firstGeneration(g.conf.classes[g.Key.Class], g.since))
}

// users finds out who uses the slot's disk. Not to know is no answer.
func (a *Agent) users(ctx context.Context, g *gathered) (learned, error) {
	users, err := ask(ctx, &a.asking, g.path, g.conf.ProbeTimeout, func(ctx context.Context) ([]disk.User, error) {
		return a.Inspector.Users(ctx, *g.Fact, g.volumeName())
	})
	if err != nil {
		return learned{}, fmt.Errorf("find out who uses %s: %w", g.path, err)
	}
	known := g.learned()
	known.users, known.usersKnown = users, true
	return known, nil
}

// inspect finds out whether the slot's disk holds data.
func (a *Agent) inspect(ctx context.Context, g *gathered) (learned, error) {
	proof, running := a.proofs.of(g.path, g.Fact.Identity)
	if running { // the proof reads what there is to read
		known := g.learned()
		known.content = disk.ContentSampled
		return known, nil
	}
	known, err := ask(ctx, &a.asking, g.path, g.conf.ProbeTimeout, func(ctx context.Context) (learned, error) {
		known := g.learned()
		var err error
		if g.AsPublished() {
			known.content, known.found, err = a.Inspector.Cleaned(ctx, *g.Fact, a.modeOf(g))
			return known, err
		}
		suspect := int64(-1)
		if proof.Found {
			suspect = proof.Done
		}
		known.content, known.found, err = a.Inspector.Inspect(ctx, *g.Fact, suspect)
		if err == nil && known.content == disk.ContentSampled && proof.Complete() {
			known.content, err = a.holds(ctx, g, proof)
		}
		return known, err
	})
	if err != nil {
		return learned{}, fmt.Errorf("look into %s: %w", g.path, err)
	}
	if known.content == disk.ContentUnknown {
		return learned{}, fmt.Errorf("look into %s: no answer", g.path)
	}
	return known, nil
}

// holds checks that a complete proof still holds: that nothing was written since.
func (a *Agent) holds(ctx context.Context, g *gathered, proof disk.BlankProof) (disk.Content, error) {
	_, err := a.Inspector.ProveBlank(ctx, disk.BlankProofRequest{Target: *g.Fact, From: proof}, func(disk.BlankProof) error { return nil })
	switch {
	case err == nil:
		return disk.ContentNone, nil
	case errors.Is(err, disk.ErrBlankProofVoid):
		a.proofs.drop(g.Fact.Identity)
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
func (a *Agent) modeOf(g *gathered) disk.Mode {
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
func (a *Agent) act(ctx context.Context, g *gathered, d decide.Decision) error {
	if err := a.releaseOthers(ctx, g); err != nil {
		return err
	}
	if d.Do != decide.None {
		klog.FromContext(ctx).V(4).Info("Decided", "action", d.Do, "path", g.path, logkeys.Volume, klog.KRef("", g.volumeName()))
	}
	switch d.Do {
	case decide.Create:
		return a.create(ctx, g, d.Generation)
	case decide.WriteRecord:
		return a.remember(ctx, g)
	case decide.AddFinalizer:
		return a.guard(ctx, g)
	case decide.MarkDisk:
		return a.mark(ctx, g, d.Mark)
	case decide.RecordFilesystem:
		return a.recordFilesystem(ctx, g)
	case decide.AddLink:
		return a.addLink(ctx, g)
	case decide.RemoveLink:
		return a.removeLink(ctx, g, d)
	case decide.DeleteVolume:
		return a.remove(ctx, g, d)
	case decide.Clean:
		return a.cleans.begin(ctx, g, d.Generation)
	case decide.ProveBlank:
		a.proofs.start(ctx, &proof{attempt: attempt{gathered: g}})
		return nil
	case decide.CleanLater:
		return a.cleanLater(g)
	case decide.MarkVanished:
		return a.miss(ctx, g)
	case decide.MarkRetained:
		return a.keep(ctx, g)
	case decide.MarkClean:
		return a.absolve(ctx, g, d.Generation)
	case decide.RemoveFinalizer:
		return a.release(ctx, g.Volume)
	default:
		return nil
	}
}

// reconsider reports whether a slot waits for something that no event reports: that a
// device is not open any more, that a disk was emptied, that a question is answered. The
// answer is how long at most it goes without being looked at; zero if events will do.
func (a *Agent) reconsider(ctx context.Context, g *gathered, d decide.Decision) time.Duration {
	if d.Problem == nil {
		return 0
	}
	switch d.Problem.Reason {
	case disk.RetainedDirty, disk.VolumeVanished, disk.OtherCluster, disk.OrphanGracePeriod, disk.OrphanCleanWaits: // acknowledgeable
		if a.readAllowed(ctx, g) {
			return retryFirst
		}
		if left := time.Until(g.GraceUntil); d.Problem.Reason == disk.OrphanGracePeriod && left < retainedLast {
			return max(left, time.Millisecond)
		}
		return retainedLast
	case disk.IdentityUnproven:
		if g.Former == nil && len(g.Predecessors) == 0 && (g.Volume == nil || g.Fact == nil || !g.Volume.Identity.Moved(g.Fact.Identity)) {
			return 0 // the volume's own annotation is an event
		}
		if a.readAllowed(ctx, g) { // it has the slot decided about again, if the machine is accepted
			return retryFirst
		}
		return retainedLast
	case disk.NotEmpty:
		if a.readAllowed(ctx, g) {
			return retryFirst
		}
		return patienceLast
	case disk.OtherNodesVolume:
		return patienceLast
	case disk.ForeignVolume: // it is looked for again before the disk is
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.foreign, g.path)
		return retryLast
	case disk.InUse, disk.VolumeInUse, disk.Unreadable, disk.IOError, disk.TimedOut, disk.BadRecord:
		return retryLast
	}
	if g.unanswered {
		return retryLast
	}
	return 0
}
