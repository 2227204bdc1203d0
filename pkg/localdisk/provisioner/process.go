// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/localdisk/decide"
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
		if !g.proving {
			p.proofs.Stop(path)
		}
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
