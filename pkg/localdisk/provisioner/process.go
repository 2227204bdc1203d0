// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

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
	if p.cleans.Busy(ctx, path) {
		return // the path is enqueued when the clean ends
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

// delay replaces a clean or a blank proof that has failed before by a decision to wait.
func (p *Provisioner) delay(g *gathered, d decide.Decision) decide.Decision {
	var problem *disk.Problem
	switch d.Do {
	case decide.ProveBlank:
		problem, g.retryAfter = p.proofs.Obstacle(g.Path)
	case decide.Clean:
		problem, g.retryAfter = p.cleans.Obstacle(g.Path)
	}
	if problem == nil {
		return d
	}
	return decide.Decision{Do: decide.None, State: d.State, Problem: problem}
}
