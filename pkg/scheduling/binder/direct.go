// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// direct completes the bindings: nobody else is needed but the provisioners.
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
	if err != nil {
		return err
	}
	if finished {
		if _, why := r.look(); why != nil {
			return why
		}
		return nil
	}
	return r.stage(ctx, "await_bound", r.awaitBound)
}

// adoptProvisioned makes a binding of every claim whose volume was waited for.
// Its claimRef is the provisioner's and is never taken back.
func (r *run) adoptProvisioned() {
	for _, p := range r.provisions {
		r.bindings = append(r.bindings, &binding{Binding: p.Binding(p.claim, p.volume), volume: p.volume})
	}
	r.provisions = nil
}

// bindClaims is step 4. finished is false when a status could not be written:
// the claims are bound, and the PV controller will say so.
//
// From here on nothing is given up because of the context or because of another
// claim: a pod with some claims bound is better off with all of them.
func (r *run) bindClaims(ctx context.Context) (finished bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
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
			open[i] = r.writeStatus(ctx, b, claim)
			return nil
		})
	}
	err = group.Wait()
	finished = true
	for i, b := range r.bindings {
		if open[i] != nil {
			finished = false
			klog.FromContext(ctx).Info("Could not write the status of a bound claim or volume, leaving it to the PV controller",
				logkeys.Claim, klog.KObj(b.Claim), logkeys.Volume, klog.KObj(b.Volume), "err", open[i])
		}
	}
	return finished, err
}

// boundByController says that the PV controller has written the claim. It goes on to
// write the claim's status, and ours would meet it there.
func (r *run) boundByController(b *binding) bool {
	s, why := r.lookAtBinding(b)
	return why == nil && s.state >= plan.ClaimBound && s.controllers
}

// bindClaim is the point of no return for one claim.
func (r *run) bindClaim(ctx context.Context, b *binding) (*v1.PersistentVolumeClaim, error) {
	write := swap[*v1.PersistentVolumeClaim]{
		resource: claimResource, name: b.Claim.Namespace + "/" + b.Claim.Name, forward: true,
		want: b.BindClaim, get: r.getClaim(b.Claim.Namespace, b.Claim.Name), put: r.putClaim,
	}
	b.committed = true
	done, err := write.run(ctx, r.newestClaim(b.Claim))
	if err != nil {
		// A failure was read from the claim: it does not refer to the volume
		// and never will, unless a request of ours is still on its way.
		var why *plan.Failure
		b.committed = done.doubtful || !errors.As(err, &why)
		return nil, err
	}
	klog.FromContext(ctx).V(2).Info("Bound claim to volume", logkeys.Claim, klog.KObj(b.Claim), logkeys.Volume, klog.KObj(b.Volume))
	return done.object, nil
}

// writeStatus writes both statuses of one binding, in parallel.
func (r *run) writeStatus(ctx context.Context, b *binding, claim *v1.PersistentVolumeClaim) error {
	ofVolume := r.phaseBound(b)
	ofVolume.forward = true
	ofClaim := swap[*v1.PersistentVolumeClaim]{
		resource: claimStatusResource, name: claim.Namespace + "/" + claim.Name, forward: true,
		want: func(live *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, bool, *plan.Failure) {
			return b.ClaimBound(live, b.volume)
		},
		get: r.getClaim(claim.Namespace, claim.Name), put: r.putClaimStatus,
	}
	var group errgroup.Group
	group.Go(func() error {
		_, err := ofVolume.run(ctx, b.volume)
		return err
	})
	group.Go(func() error {
		_, err := ofClaim.run(ctx, claim)
		return err
	})
	return group.Wait()
}
