// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/logkeys"
)

// undoTime is the deadline for taking back what was written.
const undoTime = 10 * time.Second

// undo takes back what our own writes of this call have done to claims whose
// step 4 has not begun, each on the resourceVersion that the write returned. A
// conflict means that somebody has gone on from there: it stays.
//
// A timeout alone never moves a selected-node. Nor does it take back claimRefs while
// only the PV controller is waited for to complete them: it would begin again each
// time, and with a timeout that is shorter than it takes never come to an end.
func (r *run) undo(ctx context.Context, cause error) {
	timeout := errors.Is(cause, errDeadline)
	if timeout && r.mode == PVController && r.onlyControllerOpen() {
		return
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	// Nothing here returns an error: the cause is what the caller hears of,
	// and every object that stays as it is can be bound from there.
	_ = r.stage(detached, "undo", func(ctx context.Context) error {
		var group errgroup.Group
		for _, b := range r.bindings {
			group.Go(func() error { return r.unclaimVolume(ctx, b) })
		}
		if !timeout {
			for _, p := range r.provisions {
				group.Go(func() error { return r.unselectNode(ctx, p) })
			}
		}
		return group.Wait()
	})
}

// onlyControllerOpen says that every claim has its volume.
func (r *run) onlyControllerOpen() bool {
	states, why := r.look()
	return why == nil && len(requested(states)) == 0
}

func (r *run) unclaimVolume(ctx context.Context, b *binding) error {
	if b.written == nil || b.committed {
		return nil
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), logkeys.Volume, klog.KObj(b.Volume), logkeys.Claim, klog.KObj(b.Claim))
	want, ok := b.UnclaimVolume(b.written)
	if !ok {
		logger.V(4).Info("Left the volume claimed: it is Bound")
		return nil
	}
	_, err := r.putVolume(ctx, want)
	return undone(logger, err)
}

func (r *run) unselectNode(ctx context.Context, p *provision) error {
	if p.written == nil {
		return nil
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), logkeys.Claim, klog.KObj(p.Claim), logkeys.Node, klog.KRef("", r.plan.Node))
	want, ok := p.UnselectNode(p.written)
	if !ok {
		logger.V(4).Info("Left the node selected: the provisioner may have begun")
		return nil
	}
	_, err := r.putClaim(ctx, want)
	return undone(logger, err)
}

func undone(logger klog.Logger, err error) error {
	switch {
	case err == nil:
		logger.V(2).Info("Took back a binding that could not be completed")
		return nil
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		logger.V(4).Info("Left a binding as it is: somebody else has written the object")
		return nil
	default:
		logger.Info("Could not take back a binding, it stays half-made", "err", err)
		return err
	}
}
