// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/controller/claimbinder/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// attempt is one attempt to bind a claim.
type attempt struct {
	key   string
	claim *corev1.PersistentVolumeClaim // as planned
	plan  *plan.Plan
	// provisioning: the plan's node was selected by an earlier attempt.
	provisioning bool
}

// bind makes an attempt for a claim that has a plan.
func (c *Controller) bind(ctx context.Context, key string) (time.Duration, error) {
	a := c.attemptFor(key)
	if a == nil {
		return 0, nil
	}
	live := c.volumes.Claim(a.claim.Namespace, a.claim.Name)
	switch {
	case live == nil || live.UID != a.claim.UID || !rules.Waits(live, c.Annotations) && !plan.IsBound(live):
		c.end(a) // deleted, or it is no longer to be bound now
	case plan.IsBound(live) && len(a.plan.Bindings) > 0 && live.Spec.VolumeName != a.plan.Bindings[0].Volume.Name:
		c.end(a) // another client has bound it
	case !plan.IsBound(live) && c.scheduling(key):
		c.end(a) // a pod has appeared: its scheduler binds the claim
	case a.provisioning && claims.SelectedNode(live) == "" && live.Spec.VolumeName == "":
		c.rejected(a, live)
	default:
		c.advance(ctx, a, live)
	}
	return 0, nil
}

// attemptFor returns nil if the claim has no plan.
func (c *Controller) attemptFor(key string) *attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state[key]
	if s == nil || s.plan == nil {
		return nil
	}
	a := &attempt{key: key, plan: s.plan, provisioning: s.provisioning}
	if len(s.plan.Bindings) > 0 {
		a.claim = s.plan.Bindings[0].Claim
	} else {
		a.claim = s.plan.Provisions[0].Claim
	}
	return a
}

// advance binds the claim as far as possible without a wait for its provisioner.
func (c *Controller) advance(ctx context.Context, a *attempt, live *corev1.PersistentVolumeClaim) {
	if a.provisioning {
		a.plan = c.planAgain(a, live)
	}
	err := c.binder.Advance(ctx, a.plan)
	var failure *plan.Failure
	switch provisioning := (*binder.ProvisioningError)(nil); {
	case err == nil:
		c.bound(ctx, a, live)
	case ctx.Err() != nil: // the next leader continues
	case errors.As(err, &provisioning):
		c.mu.Lock()
		c.setPlan(a.key, a.plan, true)
		c.mu.Unlock()
		if !a.provisioning { // it is no longer one of those that are being bound
			c.enqueueClass(match.ClaimClass(live))
		}
	case errors.As(err, &failure) && (failure.Code == plan.ProvisioningFailed || failure.Code == plan.NodeGone):
		c.rejected(a, live)
	default:
		klog.FromContext(ctx).V(2).Info("Failed to bind a claim; trying it again", logkeys.Claim, klog.KObj(live), "err", err)
		if !errors.As(err, &failure) {
			c.event(live, eventFailed, err.Error())
		}
		c.fail(a)
	}
}

// planAgain returns the plan of a claim that is being provisioned for its present version, which
// may have a volume now.
func (c *Controller) planAgain(a *attempt, live *corev1.PersistentVolumeClaim) *plan.Plan {
	if plan.IsBound(live) {
		return a.plan
	}
	if class := c.volumes.Class(match.ClaimClass(live)); class != nil {
		assigned, err := c.volumes.Assign(class, []volumecache.Podless{{Claim: live, Node: a.plan.Node}}, 1)
		if err == nil && assigned[0].Plan != nil {
			return assigned[0].Plan
		}
	}
	return a.plan
}

// bound ends the attempt for a claim that is bound.
func (c *Controller) bound(ctx context.Context, a *attempt, claim *corev1.PersistentVolumeClaim) {
	c.mu.Lock()
	if s := c.state[a.key]; s != nil {
		metrics.ObserveClaimBoundWithoutPod(time.Since(s.since))
	}
	c.setPlan(a.key, nil, false)
	delete(c.state, a.key)
	c.mu.Unlock()
	c.backoff.Forget(a.key)
	c.volumes.Release(a.claim.UID) // the API objects replace the reservation
	klog.FromContext(ctx).V(2).Info("Bound a claim without a pod", logkeys.Claim, klog.KObj(claim))
	c.enqueueClass(match.ClaimClass(claim))
}

// rejected ends the attempt for a claim whose provisioner cannot provision on the plan's node, or
// whose node is gone. The next one selects another node. A node is selected again when all have been
// rejected; then they are in turn again.
func (c *Controller) rejected(a *attempt, claim *corev1.PersistentVolumeClaim) {
	c.mu.Lock()
	if s := c.state[a.key]; s != nil {
		rejected := sets.New(a.plan.Node)
		if !s.rejected.Has(a.plan.Node) {
			rejected = rejected.Union(s.rejected) // the set may be in use
		}
		s.rejected = rejected
	}
	c.mu.Unlock()
	if c.volumes.NodeExists(a.plan.Node) {
		c.event(claim, eventRejected, fmt.Sprintf("the provisioner cannot provision a volume on node %q; another node is tried: see the claim's other events", a.plan.Node))
	}
	c.fail(a)
}

// fail ends the attempt; the next one follows with a growing delay.
func (c *Controller) fail(a *attempt) {
	after := c.backoff.When(a.key)
	c.mu.Lock()
	if s := c.state[a.key]; s != nil {
		s.retry = time.Now().Add(after)
	}
	c.mu.Unlock()
	c.end(a)
}

// end ends the attempt and releases what is reserved.
func (c *Controller) end(a *attempt) {
	c.mu.Lock()
	c.setPlan(a.key, nil, false)
	c.mu.Unlock()
	c.volumes.Release(a.claim.UID)
	c.observe(a.key)
	c.enqueueClass(match.ClaimClass(a.claim))
	c.enqueueClaim(a.key) // of that name there may be a new claim, of another class
}
