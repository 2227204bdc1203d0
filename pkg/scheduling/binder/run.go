// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// Bind executes the plan and returns when all its claims are bound, the volumes admit the
// node, and node and pod still exist. In Direct mode the phase of a volume may follow within
// seconds. On failure it returns the first cause, without waiting for other claims: a
// *plan.Failure, an *APIError, a *TimeoutError, or one that wraps the cause of ctx's end.
//
// After an error some writes may remain: see the package comment for what is undone. Calls
// for different pods may run concurrently, even if their plans share claims.
func (b *Binder) Bind(ctx context.Context, p *plan.Plan) error {
	return b.work(ctx, p, true)
}

// Advance is Bind for callers that cannot wait for a provisioner: while a volume is not
// provisioned it returns a *ProvisioningError, and claimRefs and selected nodes stay. Call
// it again with a new plan when the claims have changed. For a plan without provisions it is
// Bind.
func (b *Binder) Advance(ctx context.Context, p *plan.Plan) error {
	return b.work(ctx, p, false)
}

// work is Bind with wait, else Advance.
func (b *Binder) work(ctx context.Context, p *plan.Plan, wait bool) error {
	if p.Empty() {
		return nil
	}
	b.begin()
	defer b.end()
	start := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, b.timeout, errDeadline)
	defer cancel()
	changed, stop := b.cache.Subscribe(p)
	defer stop()

	r := newRun(b, p, changed)
	err := r.execute(limited, wait)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if _, provisioning := errors.AsType[*ProvisioningError](err); err != nil && !provisioning {
		cause := err
		err = r.explain(ctx, cause)
		r.undo(limited, cause)
	}
	metrics.ObserveBind(string(b.mode), outcome(err), time.Since(start))
	return err
}

// run is one Bind call. One goroutine at a time writes each of its bindings and
// provisions: every step waits for its goroutines.
type run struct {
	*Binder
	plan    *plan.Plan
	changed <-chan struct{}

	bindings   []*binding
	provisions []*provision
}

// binding is a claim that gets a volume, which exists or has been provisioned.
type binding struct {
	plan.Binding
	// volume is the newest version that our own requests returned.
	volume *v1.PersistentVolume
	// written is the response to our own write of the claimRef, nil if there was
	// none. Only that write may be undone.
	written *v1.PersistentVolume
	// left: the claimRef was found in place, and the volume's phase is left to the
	// PV controller at first. adopted: we have set the phase to Bound.
	left, adopted bool
	// committed: the claim refers to the volume, or may do so.
	committed bool
}

// provision is a claim whose volume is to be provisioned.
type provision struct {
	plan.Provision
	// gone is the node of selected-node if it does not exist.
	gone string
	// written is the response to our own write of selected-node.
	written *v1.PersistentVolumeClaim
	// claim and volume are the last observed versions; volume is nil until it exists.
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	// adopted: we have set the volume's phase to Bound.
	adopted bool
}

func newRun(b *Binder, p *plan.Plan, changed <-chan struct{}) *run {
	r := &run{Binder: b, plan: p, changed: changed}
	for i := range p.Bindings {
		r.bindings = append(r.bindings, &binding{Binding: p.Bindings[i]})
	}
	for i := range p.Provisions {
		r.provisions = append(r.provisions, &provision{Provision: p.Provisions[i]})
	}
	return r
}

// execute is a call without the handling of failures. With wait it waits for provisioners.
func (r *run) execute(ctx context.Context, wait bool) error {
	if err := r.request(ctx); err != nil {
		return err
	}
	if !wait && len(r.provisions) > 0 {
		states, why := r.look()
		if why != nil {
			return why
		}
		if open := requested(states); len(open) > 0 {
			return &ProvisioningError{Waiting: open}
		}
	}
	return r.complete(ctx)
}

// request is steps 1 and 2.
func (r *run) request(ctx context.Context) error {
	if why := r.missing(); why != nil {
		return why
	}
	if err := r.stage(ctx, "claim_volumes", r.claimVolumes); err != nil {
		return err
	}
	if len(r.provisions) == 0 {
		return nil
	}
	return r.stage(ctx, "select_node", r.selectNodes)
}

// missing returns a failure if the plan's pod or its node does not exist.
func (r *run) missing() *plan.Failure {
	p := r.plan
	switch {
	case p.Pod.Name != "" && !r.cache.PodExists(p.Pod, p.PodUID):
		return &plan.Failure{Code: plan.PodGone, Subject: p.Subject(), Node: p.Node}
	case p.Node != "" && !r.cache.NodeExists(p.Node):
		return &plan.Failure{Code: plan.NodeGone, Subject: p.Subject(), Node: p.Node}
	}
	return nil
}

// stage measures and logs one step.
func (r *run) stage(ctx context.Context, name string, step func(context.Context) error) error {
	start := time.Now()
	err := step(ctx)
	took := time.Since(start)
	metrics.ObserveBindStage(name, outcome(err), took)
	klog.FromContext(ctx).V(4).Info("Binding step ended", logkeys.Stage, name,
		logkeys.Pod, klog.KRef(r.plan.Pod.Namespace, r.plan.Pod.Name), logkeys.Duration, took, "err", err)
	return err
}

// claimVolumes is step 1: it sets the claimRef of every volume. After the first failure
// the others do not retry. It waits for requests in progress, whose outcome decides what
// is undone.
func (r *run) claimVolumes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, b := range r.bindings {
		group.Go(func() error { return r.claimVolume(ctx, b) })
	}
	return group.Wait()
}

func (r *run) claimVolume(ctx context.Context, b *binding) error {
	done, err := r.volumeWrite(b.Volume.Name, b.ClaimVolume).run(ctx, b.Volume)
	b.volume = done.object
	if err != nil {
		return err
	}
	if done.wrote {
		b.written = done.object
		klog.FromContext(ctx).V(4).Info("Claimed volume", logkeys.Volume, klog.KObj(b.Volume), logkeys.Claim, klog.KObj(b.Claim))
		return nil
	}
	if r.mode != Direct {
		return nil
	}
	return r.adoptVolume(ctx, b, true)
}

// selectNodes is step 2. It checks all selected nodes before it writes the first one.
func (r *run) selectNodes(ctx context.Context) error {
	checking, checkCtx := errgroup.WithContext(ctx)
	for _, p := range r.provisions {
		checking.Go(func() error { return r.checkSelected(checkCtx, p) })
	}
	if err := checking.Wait(); err != nil {
		return err
	}
	writing, writeCtx := errgroup.WithContext(ctx)
	for _, p := range r.provisions {
		writing.Go(func() error { return r.selectNode(writeCtx, p) })
	}
	return writing.Wait()
}

// checkSelected reads from the API server, not from a cache, whether the node in the
// claim's selected-node still exists. It sends no request for a name that no node can have:
// users may write the annotation.
func (r *run) checkSelected(ctx context.Context, p *provision) error {
	claim := r.newestClaim(p.Claim)
	if claim == nil {
		return &plan.Failure{Code: plan.ClaimGone, Claim: p.Claim.Namespace + "/" + p.Claim.Name}
	}
	selected := claim.Annotations[plan.AnnSelectedNode]
	if selected == "" || selected == r.plan.Node {
		return nil
	}
	if len(validation.NameIsDNSSubdomain(selected, false)) > 0 {
		p.gone = selected
		return nil
	}
	_, err := withGrace(ctx, func(ctx context.Context) (*v1.Node, error) {
		return r.client.CoreV1().Nodes().Get(ctx, selected, metav1.GetOptions{})
	})
	if apierrors.IsNotFound(err) {
		p.gone = selected
		return nil
	}
	if err != nil {
		return &APIError{Verb: "get", Resource: "nodes", Name: selected, Err: err}
	}
	return nil
}

func (r *run) selectNode(ctx context.Context, p *provision) error {
	wanted := p.Provision
	if r.mode != Direct {
		wanted.Provisioner = "" // the PV controller writes it
	}
	write := r.claimWrite(p.Claim, func(live *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, bool, *plan.Failure) {
		return wanted.SelectNode(live, r.plan.Node, p.gone)
	})
	done, err := write.run(ctx, r.newestClaim(p.Claim))
	if err != nil {
		return err
	}
	if done.wrote {
		p.written = done.object
		klog.FromContext(ctx).V(4).Info("Selected node for claim", logkeys.Claim, klog.KObj(p.Claim), logkeys.Node, klog.KRef("", r.plan.Node))
	}
	return nil
}

// newestClaim returns the newest observed version of the claim, nil if it does not exist.
func (r *run) newestClaim(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	return r.cache.Claim(claim.Namespace, claim.Name)
}

// complete is steps 3 and 4.
func (r *run) complete(ctx context.Context) error {
	var err error
	if r.mode == Direct {
		err = r.direct(ctx)
	} else {
		err = r.stage(ctx, "await_bound", r.awaitState(plan.ClaimBound))
	}
	if err != nil {
		return err
	}
	r.removeMarks(ctx)
	return nil
}

// explain returns the error for users of the end of the caller's context, or of Bind's own
// deadline; any other error is returned unchanged.
func (r *run) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errDeadline):
		return &TimeoutError{After: r.timeout, Waiting: r.waitingFor()}
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("binding the volumes of %q was stopped: %w", r.plan.Subject(), err)
	default:
		return err
	}
}
