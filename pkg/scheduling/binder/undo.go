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

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// undoTime is the deadline of undo.
const undoTime = 10 * time.Second

// undo reverts the writes of this call for claims whose step 4 has not begun, each on the
// resourceVersion that the write returned. A conflict means that another writer continued
// from there: the object stays.
//
// A timeout alone never removes a selected-node, nor claimRefs that only wait for the PV
// controller: with a timeout shorter than that takes, each attempt would start again.
func (r *run) undo(ctx context.Context, cause error) {
	timeout := errors.Is(cause, errDeadline)
	if timeout && r.mode == PVController {
		if states, why := r.look(); why == nil && len(requested(states)) == 0 { // every claim has its volume
			return
		}
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	// The caller gets the cause, not these errors: an object that is not
	// reverted can be bound from there.
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
		logger.V(2).Info("Undid an incomplete binding")
		return nil
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		logger.V(4).Info("Left an incomplete binding: another client has written the object")
		return nil
	default:
		logger.Info("Failed to undo an incomplete binding", "err", err)
		return err
	}
}

// removeMarks removes BindingUndoneAnnotation from volumes whose claims are bound. If it
// fails, the volume's next claim waits for the PV controller needlessly.
func (r *run) removeMarks(ctx context.Context) {
	var group errgroup.Group
	for _, b := range r.bindings {
		volume := newer(b.volume, r.cache.Volume(b.Volume.Name))
		if volume == nil || volume.Annotations[wellknown.BindingUndoneAnnotation] == "" {
			continue
		}
		group.Go(func() error {
			_, err := r.volumeWrite(b.Volume.Name, b.RemoveUndoneMark).run(ctx, volume)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		klog.FromContext(ctx).Info("Failed to remove the annotation of an undone binding",
			logkeys.Pod, klog.KRef(r.plan.Pod.Namespace, r.plan.Pod.Name), "annotation", wellknown.BindingUndoneAnnotation, "err", err)
	}
}

// requested returns, for each claim that waits for a provisioner, a description of that.
func requested(states []claimState) []string {
	var open []string
	for _, s := range states {
		if s.state == plan.Requested {
			open = append(open, waiting(s))
		}
	}
	return open
}
