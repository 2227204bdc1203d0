// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// direct is steps 3 and 4 in Direct mode.
func (r *run) direct(ctx context.Context) error {
	if err := r.stage(ctx, "await_volumes", r.awaitVolumes); err != nil {
		return err
	}
	r.adoptProvisioned()
	finished := true
	err := r.stage(ctx, "bind_claims", func(ctx context.Context) (err error) {
		finished, err = r.bindClaims(ctx)
		return err
	})
	r.leavePhases(ctx)
	if err != nil {
		return err
	}
	if finished {
		if _, why := r.look(); why != nil {
			return why
		}
		return nil
	}
	return r.stage(ctx, "await_bound", r.awaitState(plan.Bound))
}

// adoptProvisioned makes every provision, whose volume exists now, a binding. Its claimRef
// is the provisioner's and is never undone.
func (r *run) adoptProvisioned() {
	for _, p := range r.provisions {
		r.bindings = append(r.bindings, &binding{Binding: p.Binding(p.claim, p.volume), volume: p.volume})
	}
	r.provisions = nil
}

// bindClaims is step 4. finished is false if a claim's status could not be written: the
// claims are bound, and the PV controller writes the status.
//
// From here on neither the end of the context nor the failure of another claim stops a
// write: a pod with some claims bound needs all of them.
func (r *run) bindClaims(ctx context.Context) (finished bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	needed, stopWaiting := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	watching.Go(func() {
		if r.awaitState(plan.Bound)(needed) == nil {
			stopWaiting()
		}
	})
	defer watching.Wait()
	defer stopWaiting()
	var group errgroup.Group
	open := make([]error, len(r.bindings))
	for i, b := range r.bindings {
		if b.committed = r.boundByController(b); b.committed {
			continue
		}
		group.Go(func() error {
			claim, err := r.bindClaim(ctx, b)
			if err != nil {
				return err
			}
			open[i] = r.writeStatus(ctx, needed, b, claim)
			return nil
		})
	}
	err = group.Wait()
	finished = true
	for i, b := range r.bindings {
		if open[i] != nil {
			finished = false
			klog.FromContext(ctx).Info("Failed to write the status of a bound claim; leaving it to the PV controller",
				logkeys.Claim, klog.KObj(b.Claim), logkeys.Volume, klog.KObj(b.Volume), "err", open[i])
		}
	}
	return finished, err
}

// boundByController reports whether the PV controller has written the claim. It writes the
// claim's status next, with which our write would conflict.
func (r *run) boundByController(b *binding) bool {
	s, why := r.lookAtBinding(b)
	return why == nil && s.state >= plan.ClaimBound && s.controllers
}

// bindClaim writes the claim, which cannot be undone.
func (r *run) bindClaim(ctx context.Context, b *binding) (*v1.PersistentVolumeClaim, error) {
	write := r.claimWrite(b.Claim, b.BindClaim)
	write.forward = true
	b.committed = true
	done, err := write.run(ctx, r.newestClaim(b.Claim))
	if err != nil {
		// A failure was read from the claim: it does not refer to the volume
		// and never will, unless a request of this binder is still in progress.
		var why *plan.Failure
		b.committed = done.doubtful || !errors.As(err, &why)
		return nil, err
	}
	klog.FromContext(ctx).V(2).Info("Bound claim to volume", logkeys.Claim, klog.KObj(b.Claim), logkeys.Volume, klog.KObj(b.Volume))
	return done.object, nil
}

// writeStatus writes the claim's status. needed ends when all claims are observed as Bound:
// that cancels a request that still waits for the client's rate limit.
func (r *run) writeStatus(ctx, needed context.Context, b *binding, claim *v1.PersistentVolumeClaim) error {
	write := r.claimWrite(claim, func(live *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, bool, *plan.Failure) {
		return b.ClaimBound(live, b.volume)
	})
	write.resource, write.forward = claimStatusResource, true
	get := write.get
	write.get = func(ctx context.Context) (*v1.PersistentVolumeClaim, error) {
		if needed.Err() != nil {
			return r.newestClaim(claim), nil
		}
		return get(ctx)
	}
	write.put = func(ctx context.Context, want *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(needed, cancel)()
		return r.putClaimStatus(ctx, want)
	}
	_, err := write.run(ctx, claim)
	return err
}

// phaseTime is how long a PV controller may take to set the phase of a volume whose claim is
// bound. No pod waits for it: kubelet reads the claim's phase and the volume's claimRef.
const phaseTime = 10 * time.Second

// leavePhases writes, after phaseTime, the phases that the PV controller has not set. Shutdown
// ends the wait.
func (r *run) leavePhases(ctx context.Context) {
	var open []*binding
	for _, b := range r.bindings {
		if volume := r.cache.Volume(b.Volume.Name); b.committed && volume != nil && volume.Status.Phase != v1.VolumeBound {
			open = append(open, b)
		}
	}
	if len(open) == 0 {
		return
	}
	r.after(phaseTime, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), phaseTime)
		defer cancel()
		var group errgroup.Group
		for _, b := range open {
			group.Go(func() error { return r.writePhase(limited, b) })
		}
		if err := group.Wait(); err != nil {
			klog.FromContext(ctx).Info("Failed to set the phase of a bound volume; leaving it to the PV controller",
				logkeys.Pod, klog.KRef(r.plan.Pod.Namespace, r.plan.Pod.Name), "err", err)
		}
	})
}

// writePhase sets phase Bound on a volume that is Available. Any later phase is the PV
// controller's: the claim may have been deleted meanwhile.
func (r *run) writePhase(ctx context.Context, b *binding) error {
	write := r.phaseBound(b)
	write.want = func(live *v1.PersistentVolume) (*v1.PersistentVolume, bool, *plan.Failure) {
		if live == nil || live.Status.Phase != v1.VolumeAvailable {
			return live, false, nil
		}
		return b.VolumeBound(live)
	}
	_, err := write.run(ctx, r.cache.Volume(b.Volume.Name))
	return err
}

// adoptVolume sets phase Bound on a volume whose claimRef was found in place: it prevents
// that the writer of the claimRef undoes it. With early it does not set the phase while that
// shows whether the PV controller knows the volume as the claim's.
func (r *run) adoptVolume(ctx context.Context, b *binding, early bool) error {
	adopt := r.phaseBound(b)
	live, err := adopt.read(ctx)
	if err != nil {
		return err
	}
	if early && live != nil && b.AwaitsPVController(live) {
		b.volume, b.left = live, true
		return nil
	}
	done, err := adopt.run(ctx, live)
	b.volume, b.adopted = done.object, done.wrote
	return err
}

// adoptVolumes adopts the volumes that were left early, after the PV controller has set
// the phase or its time is over. For a provisioned volume this saves the PV controller one of
// three writes. The others remain its own, since it may not know the volume yet.
func (r *run) adoptVolumes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, b := range r.bindings {
		if b.left {
			group.Go(func() error { return r.adoptVolume(ctx, b, false) })
		}
	}
	for _, p := range r.provisions {
		if p.volume != nil && !plan.SeenByPVController(p.volume) {
			group.Go(func() error {
				done, err := r.phaseBound(&binding{Binding: p.Binding(p.claim, p.volume)}).run(ctx, p.volume)
				p.adopted = done.wrote
				return err
			})
		}
	}
	return group.Wait()
}

// phaseBound returns the write that sets the volume's phase to Bound.
func (r *run) phaseBound(b *binding) swap[*v1.PersistentVolume] {
	write := r.volumeWrite(b.Volume.Name, b.VolumeBound)
	write.resource, write.put = volumeStatusResource, r.putVolumeStatus
	return write
}
