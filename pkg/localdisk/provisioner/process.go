// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
)

// errStale means that the state a decision was based on has changed.
var errStale = errors.New("the state has changed since the decision")

// process decides on a path and does what was decided: one action, after which the path is
// enqueued again.
func (p *Provisioner) process(ctx context.Context, path string) {
	if left, pending := p.paths.pendingWrite(path, p.volumes.objectsAt(path)); pending {
		p.queue.AddAfter(path, left) // usually the informer's event is earlier
		return
	}
	if p.cleans.busy(ctx, path) {
		return // the path is enqueued when the clean ends
	}
	g, d, err := p.decideSlot(ctx, path)
	if err != nil || ctx.Err() != nil {
		p.retry(ctx, g, d, err)
		return
	}
	if d.Do != decide.ProveBlank {
		p.proofs.stop(path)
	}
	left, d := p.withBackoff(path, d)
	p.status.decided(g, d)
	if g.Fact == nil && g.Volume == nil {
		p.forget(path)
	}
	if left > 0 {
		p.queue.AddAfter(path, left)
		return
	}
	if err := p.act(ctx, g, d); err != nil || ctx.Err() != nil {
		p.retry(ctx, g, d, err)
		return
	}
	switch d.Do {
	case decide.Clean, decide.ProveBlank: // the path is enqueued when that ends
	case decide.None:
		p.queue.Forget(path)
		p.scheduleRecheck(ctx, g, d)
	default:
		p.queue.Forget(path)
		p.queue.Add(path)
	}
}

// retry enqueues a path with backoff, and reports an error. When ctx has ended it does
// nothing: questions are not answered then.
func (p *Provisioner) retry(ctx context.Context, g *gathered, d decide.Decision, err error) {
	if ctx.Err() != nil {
		return
	}
	if !errors.Is(err, errStale) && p.status.failed(g, d, err) {
		klog.FromContext(ctx).Error(err, "Action failed; retrying", "action", d.Do, "path", g.path)
	}
	p.queue.AddRateLimited(g.path)
}

// decideSlot decides on a path, and answers the questions of the decision. It returns an
// error if the API server could not be asked.
func (p *Provisioner) decideSlot(ctx context.Context, path string) (*gathered, decide.Decision, error) {
	var known answers
	searched := false
	for {
		g := p.gather(path, known)
		d := decide.WithLink(decideVolume(g), decide.Link(&g.Slot))
		if !searched && g.Volume == nil && (d.Do == decide.Inspect || d.Do == decide.Clean || d.Do == decide.MarkRetained) {
			searched = true // before the disk is read: the data may be an unmanaged volume's
			if err := p.findUnmanagedPV(ctx, g); err != nil && !errors.Is(err, errStale) {
				return g, d, err
			}
			continue
		}
		if !isQuestion(d.Do) {
			return g, d, nil
		}
		var err error
		known, err = p.answer(ctx, g, d.Do)
		switch {
		case err != nil && d.Do == decide.AskNodes:
			return g, d, err
		case err != nil:
			g.questionFailed = true
			return g, decide.Decision{Do: decide.None, State: d.State, Problem: asProblem(err)}, nil
		}
	}
}

func decideVolume(g *gathered) decide.Decision {
	if decide.ForReclaim(&g.Slot) {
		return decide.Reclaim(&g.Slot)
	}
	return decide.Publish(&g.Slot, firstGeneration(g.conf.class(g.Key.Class), g.since))
}

// firstGeneration returns the generation of the first volume of a disk that was first found at
// since: the time in milliseconds, which is higher than the generation in a record that was
// lost, and differs from that of the former disk, since scans are further apart. Names of
// VolumeNameReference contain no generation; theirs start at the lowest.
func firstGeneration(class *provisioner.Class, since time.Time) int64 {
	if class != nil && class.VolumeName == provisioner.VolumeNameReference {
		return localpv.FirstGeneration
	}
	return max(since.UnixMilli(), localpv.FirstGeneration)
}

// withBackoff delays a clean or a blank proof that has failed before. It returns for how
// long, and the decision until then.
func (p *Provisioner) withBackoff(path string, d decide.Decision) (time.Duration, decide.Decision) {
	var problem *disk.Problem
	var left time.Duration
	switch d.Do {
	case decide.ProveBlank:
		problem, left = p.proofs.obstacle(path)
	case decide.Clean:
		problem, left = p.cleans.obstacle(path)
	}
	if problem == nil {
		return 0, d
	}
	return left, decide.Decision{Do: decide.None, State: d.State, Problem: problem}
}

// forget drops the state of a path that has neither a disk nor a volume.
func (p *Provisioner) forget(path string) {
	p.cleans.forget(path)
	p.proofs.stop(path)
	p.proofs.forget(path)
	p.paths.update(path, func(s *pathState) { s.recheck, s.unmanagedPV = recheck{}, "" })
}

// act does what was decided.
func (p *Provisioner) act(ctx context.Context, g *gathered, d decide.Decision) error {
	if err := p.removeOtherFinalizers(ctx, g); err != nil {
		return err
	}
	if d.Do != decide.None {
		klog.FromContext(ctx).V(4).Info("Decided", "action", d.Do, "path", g.path, logkeys.Volume, klog.KRef("", g.volumeName()))
	}
	switch d.Do {
	case decide.WriteRecord:
		return p.writeRecord(ctx, g)
	case decide.AddFinalizer:
		return p.addFinalizer(ctx, g)
	case decide.MarkDisk:
		return p.markDisk(ctx, g, d.Mark)
	case decide.DeleteVolume:
		return p.deletePV(ctx, g, d)
	case decide.CleanLater:
		return p.cleanLater(g)
	case decide.MarkVanished:
		return p.recordMissed(ctx, g)
	case decide.MarkRetained:
		return p.markRetained(ctx, g)
	case decide.MarkClean:
		return p.markClean(ctx, g, d.Generation)
	case decide.RemoveFinalizer:
		return p.removeFinalizer(ctx, g.Volume)
	case decide.Create:
		return p.create(ctx, g, d.Generation)
	case decide.RecordFilesystem:
		return p.recordFilesystem(ctx, g)
	case decide.AddLink:
		return p.addLink(ctx, g)
	case decide.RemoveLink:
		return p.removeLink(ctx, g, d)
	case decide.Clean:
		return p.cleans.begin(ctx, g, d.Generation)
	case decide.ProveBlank:
		p.proofs.start(ctx, &proof{attempt: attempt{gathered: g}})
		return nil
	default:
		return nil
	}
}
