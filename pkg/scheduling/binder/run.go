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

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// run is one Bind call. Its bindings and provisions are each written by one
// goroutine at a time, the steps of the call being separated by joins.
type run struct {
	*Binder
	plan    *plan.Plan
	changed <-chan struct{}

	bindings   []*binding
	provisions []*provision
}

// binding is a claim that gets an existing volume, or one that has been made.
type binding struct {
	plan.Binding
	// volume is the newest version that our own requests returned.
	volume *v1.PersistentVolume
	// written is what our own write of the claimRef returned, nil if there
	// was none: only that may be undone.
	written *v1.PersistentVolume
	// left says that the claimRef was found in place and the volume's phase
	// left to the PV controller at first, adopted that we have set it Bound.
	left, adopted bool
	// committed says that the claim refers to the volume, or may do so.
	committed bool
}

// provision is a claim that gets a volume made for it.
type provision struct {
	plan.Provision
	// gone is the node that selected-node named and that does not exist.
	gone string
	// written is what our own write of selected-node returned.
	written *v1.PersistentVolumeClaim
	// claim and volume are what was last seen of them; volume is nil until
	// there is one.
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	// adopted says that we have set the volume's phase Bound.
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

// carryOut is the whole of a Bind call but for what follows a failure.
func (r *run) carryOut(ctx context.Context) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	return r.complete(ctx)
}

// advance is carryOut as far as it goes without a provisioner.
func (r *run) advance(ctx context.Context) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	if len(r.provisions) > 0 {
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

// requested says which claims wait for a provisioner.
func requested(states []claimState) []string {
	var open []string
	for _, s := range states {
		if s.state == plan.Requested {
			open = append(open, waiting(s))
		}
	}
	return open
}

// ask is steps 1 and 2.
func (r *run) ask(ctx context.Context) error {
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

// complete is steps 3 and 4.
func (r *run) complete(ctx context.Context) error {
	var err error
	if r.mode == Direct {
		err = r.direct(ctx)
	} else {
		err = r.stage(ctx, "await_bound", r.awaitController)
	}
	if err != nil {
		return err
	}
	r.removeMarks(ctx)
	return nil
}

// removeMarks takes BindingUndoneAnnotation from volumes whose claims are bound. If it
// fails, the volume's next claim waits for the PV controller without need.
func (r *run) removeMarks(ctx context.Context) {
	var group errgroup.Group
	for _, b := range r.bindings {
		volume := newer(b.volume, r.cache.Volume(b.Volume.Name))
		if volume == nil || volume.Annotations[wellknown.BindingUndoneAnnotation] == "" {
			continue
		}
		write := swap[*v1.PersistentVolume]{
			resource: volumeResource, name: b.Volume.Name,
			want: b.RemoveUndoneMark, get: r.getVolume(b.Volume.Name), put: r.putVolume,
		}
		group.Go(func() error {
			_, err := write.run(ctx, volume)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		klog.FromContext(ctx).Info("Failed to remove the annotation of an undone binding",
			logkeys.Pod, klog.KRef(r.plan.Pod.Namespace, r.plan.Pod.Name), "annotation", wellknown.BindingUndoneAnnotation, "err", err)
	}
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

// claimVolumes is step 1: every volume gets its claimRef. The first failure
// keeps the others from beginning another attempt; requests that are under way
// are waited for, so that it is known what has to be undone.
func (r *run) claimVolumes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, b := range r.bindings {
		group.Go(func() error { return r.claimVolume(ctx, b) })
	}
	return group.Wait()
}

func (r *run) claimVolume(ctx context.Context, b *binding) error {
	write := swap[*v1.PersistentVolume]{
		resource: volumeResource, name: b.Volume.Name,
		want: b.ClaimVolume, get: r.getVolume(b.Volume.Name), put: r.putVolume,
	}
	done, err := write.run(ctx, b.Volume)
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

// adoptVolume is for a volume whose claimRef was found in place. Its writer may be about to
// undo it, which phase Bound prevents. With early, the phase is left alone while it shows
// whether the PV controller knows the volume as the claim's.
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

// adoptVolumes adopts what was left early on, now that the PV controller has set
// the phase or has had its time to. Of a provisioned volume this saves it one of three
// writes: the rest stays its own, since it may not know the volume yet.
func (r *run) adoptVolumes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, b := range r.bindings {
		if b.left {
			group.Go(func() error { return r.adoptVolume(ctx, b, false) })
		}
	}
	for _, p := range r.provisions {
		if p.volume != nil && !plan.SeenByPVController(p.volume) {
			group.Go(func() error { return r.adoptProvision(ctx, p) })
		}
	}
	return group.Wait()
}

func (r *run) adoptProvision(ctx context.Context, p *provision) error {
	done, err := r.phaseBound(&binding{Binding: p.Binding(p.claim, p.volume)}).run(ctx, p.volume)
	p.adopted = done.wrote
	return err
}

// phaseBound is the write that sets the volume's phase.
func (r *run) phaseBound(b *binding) swap[*v1.PersistentVolume] {
	return swap[*v1.PersistentVolume]{
		resource: volumeStatusResource, name: b.Volume.Name,
		want: b.VolumeBound, get: r.getVolume(b.Volume.Name), put: r.putVolumeStatus,
	}
}

// selectNodes is step 2. All selected nodes are looked at before the first one
// is written.
func (r *run) selectNodes(ctx context.Context) error {
	looking, lookCtx := errgroup.WithContext(ctx)
	for _, p := range r.provisions {
		looking.Go(func() error { return r.checkSelected(lookCtx, p) })
	}
	if err := looking.Wait(); err != nil {
		return err
	}
	writing, writeCtx := errgroup.WithContext(ctx)
	for _, p := range r.provisions {
		writing.Go(func() error { return r.selectNode(writeCtx, p) })
	}
	return writing.Wait()
}

// checkSelected asks the API server, not a cache, whether the node that the
// claim was last to be provisioned on still exists. It does not ask for a name that
// no node can have: the annotation is the user's to write.
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
	_, err := settled(ctx, func(ctx context.Context) (*v1.Node, error) {
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
	asked := p.Provision
	if r.mode != Direct {
		// The PV controller finds out the provisioner and names it.
		asked.Provisioner = ""
	}
	write := swap[*v1.PersistentVolumeClaim]{
		resource: claimResource, name: p.Claim.Namespace + "/" + p.Claim.Name,
		want: func(live *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, bool, *plan.Failure) {
			return asked.SelectNode(live, r.plan.Node, p.gone)
		},
		get: r.getClaim(p.Claim.Namespace, p.Claim.Name), put: r.putClaim,
	}
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

// explain makes of the end of the caller's context, or of Bind's own deadline,
// the error that the pod's owner reads.
func (r *run) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errDeadline):
		return &TimeoutError{After: r.timeout, Waiting: r.waitingFor()}
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("binding the volumes of pod %q was stopped: %w", r.plan.Pod, err)
	default:
		return err
	}
}
