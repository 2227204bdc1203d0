// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"stowage.dev/stowage/pkg/scheduling/plan"
)

// How long Direct waits for a PV controller to set the phase of a volume that was
// provisioned, that its owner has pre-bound by name, or (busyControllerTime) whose claimRef
// was undone; at most half of the time that the binding has. A working PV controller needs a
// tenth of a second; without one every such binding takes this long. claimRefs are undone
// after failures, when a PV controller may lag, by 16 seconds under load.
const controllerTime, busyControllerTime = 5 * time.Second, 30 * time.Second

// completionTime is how long Direct waits at most for a PV controller to write the claim
// of a volume that it has set Bound. Both would write the same version of the claim. A
// working PV controller takes milliseconds, at the default limit of its client a
// twentieth of a second; the bound is for one that stops in between.
const completionTime = time.Second

// claimState is the observed state of one claim of the plan.
type claimState struct {
	name, node, provisioner string
	state                   plan.State
	// volume is the claim's, nil if there is none yet.
	volume *v1.PersistentVolume
	static bool
	// controllers: the PV controller has begun to complete the binding: the
	// volume's phase is Bound, and not by our own write.
	controllers bool
	// controllerOnly: only the PV controller may write the claim: it may not know
	// the provisioned volume, whose phase is Pending or was set by us.
	controllerOnly bool
}

func (s claimState) volumeName() string {
	if s.volume == nil {
		return ""
	}
	return s.volume.Name
}

// awaitVolumes is step 3 of Direct.
func (r *run) awaitVolumes(ctx context.Context) error {
	if len(r.provisions) > 0 {
		if err := r.awaitState(plan.Unseen)(ctx); err != nil {
			return err
		}
	}
	err := r.await(ctx, r.controllerGrace(), func(s claimState, overdue bool) bool {
		return s.state > plan.Unseen || s.state == plan.Unseen && overdue && (!s.static || s.volume.Status.Phase == v1.VolumeAvailable)
	})
	if err != nil {
		return err
	}
	if err := r.adoptVolumes(ctx); err != nil {
		return err
	}
	return r.await(ctx, completionTime, func(s claimState, overdue bool) bool {
		return s.state > plan.Claimed || !s.controllerOnly && (overdue || !s.controllers)
	})
}

// awaitState returns a step that waits until all claims have reached a state.
func (r *run) awaitState(least plan.State) func(context.Context) error {
	return func(ctx context.Context) error {
		return r.await(ctx, 0, func(s claimState, _ bool) bool { return s.state >= least })
	}
}

// await returns when every claim is ready, or with the first failure of any, without
// waiting for other claims. overdue is true after grace, or after half of the time until the
// deadline.
func (r *run) await(ctx context.Context, grace time.Duration, ready func(s claimState, overdue bool) bool) error {
	if end, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(end)/2)
	}
	timer, overdue := time.NewTimer(grace), false
	defer timer.Stop()
	for {
		states, why := r.look()
		if why != nil {
			return why
		}
		all := true
		for _, s := range states {
			all = all && ready(s, overdue)
		}
		if all {
			return nil
		}
		select {
		case <-r.changed:
		case <-timer.C:
			overdue = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// controllerGrace is how long Direct waits for a PV controller that does not respond.
func (r *run) controllerGrace() time.Duration {
	if slices.ContainsFunc(r.bindings, func(b *binding) bool { return b.UndoneByOther(b.volume) }) {
		return busyControllerTime
	}
	return controllerTime
}

// look returns the state of every claim of the plan, or the first failure found.
func (r *run) look() ([]claimState, *plan.Failure) {
	if why := r.missing(); why != nil {
		return nil, why
	}
	states := make([]claimState, 0, len(r.bindings)+len(r.provisions))
	for _, b := range r.bindings {
		s, why := r.lookAtBinding(b)
		if why != nil {
			return nil, why
		}
		states = append(states, s)
	}
	for _, p := range r.provisions {
		s, why := r.lookAtProvision(p)
		if why != nil {
			return nil, why
		}
		states = append(states, s)
	}
	return states, nil
}

func (r *run) lookAtBinding(b *binding) (claimState, *plan.Failure) {
	volume := newer(b.volume, r.cache.Volume(b.Volume.Name))
	state, why := b.Progress(volume, r.newestClaim(b.Claim))
	if why != nil {
		return claimState{}, why
	}
	s := claimState{name: b.Claim.Namespace + "/" + b.Claim.Name, node: r.plan.Node, state: state, volume: volume, static: true,
		controllers: volume.Status.Phase == v1.VolumeBound && !b.adopted}
	return s, r.offNode(s)
}

func (r *run) lookAtProvision(p *provision) (claimState, *plan.Failure) {
	claim := r.newestClaim(p.Claim)
	volume := r.volumeOf(claim)
	state, why := p.Progress(r.plan.Node, claim, volume)
	if why != nil {
		return claimState{}, why
	}
	s := claimState{name: p.Claim.Namespace + "/" + p.Claim.Name, node: r.plan.Node, provisioner: p.Provisioner, state: state,
		controllerOnly: p.adopted || state < plan.Claimed}
	if state == plan.Requested {
		return s, nil
	}
	p.claim, p.volume, s.volume = claim, volume, volume
	s.controllers = volume != nil && volume.Status.Phase == v1.VolumeBound && !p.adopted
	return s, r.offNode(s)
}

// waitingFor describes, for each claim that is not bound, what it waits for; or the failure
// if there is one.
func (r *run) waitingFor() []string {
	states, why := r.look()
	if why != nil {
		return []string{why.Error()}
	}
	var open []string
	for _, s := range states {
		if s.state < plan.Bound {
			open = append(open, waiting(s))
		}
	}
	return open
}

// offNode returns a failure if the claim's volume cannot be used on the node.
func (r *run) offNode(s claimState) *plan.Failure {
	if s.volume == nil || r.plan.Node == "" {
		return nil
	}
	exists, admits := r.cache.NodeAdmits(s.volume, r.plan.Node)
	switch {
	case !exists:
		return &plan.Failure{Code: plan.NodeGone, Subject: r.plan.Subject(), Node: r.plan.Node}
	case !admits:
		return &plan.Failure{Code: plan.VolumeOffNode, Claim: s.name, Volume: s.volume.Name, Node: r.plan.Node}
	}
	return nil
}

// volumeOf returns the volume that the claim is bound to, else one that refers to it, else
// nil.
func (r *run) volumeOf(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	switch {
	case claim == nil:
		return nil
	case claim.Spec.VolumeName != "":
		return r.cache.Volume(claim.Spec.VolumeName)
	default:
		return r.cache.VolumeFor(claim)
	}
}

// newer returns the cached version unless our own request returned a newer one. A volume
// that is not cached has been deleted.
func newer(own, cached *v1.PersistentVolume) *v1.PersistentVolume {
	if own == nil || cached == nil || own.UID != cached.UID {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(own.ResourceVersion, cached.ResourceVersion); err == nil && order > 0 {
		return own
	}
	return cached
}

// waiting describes for users what a claim in this state waits for.
func waiting(s claimState) string {
	text := ""
	switch s.state {
	case plan.Requested:
		by := "a provisioner"
		if s.provisioner != "" {
			by = fmt.Sprintf("provisioner %q", s.provisioner)
		}
		text = fmt.Sprintf("waits for %s to create its volume on node %q, see the claim's events", by, s.node)
	case plan.Unseen, plan.Claimed:
		text = fmt.Sprintf("waits for the PV controller (kube-controller-manager) to bind it to volume %q", s.volumeName())
	case plan.ClaimBound:
		text = fmt.Sprintf("waits for its status and that of volume %q to become Bound", s.volumeName())
	case plan.Bound:
		text = "is bound"
	}
	return fmt.Sprintf("claim %q %s", s.name, text)
}
