// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/pkg/controller/claimbinder/rules"
	"stowage.dev/stowage/pkg/scheduling/plan"
)

// state is what the controller records about a claim beside its object. A worker alone uses a claim
// with a plan.
type state struct {
	uid   types.UID
	since time.Time // when the controller observed it first
	// plan is how the claim is being bound; nil if it waits.
	plan *plan.Plan
	// provisioning: the plan's node was selected, and the volume does not exist yet.
	provisioning bool
	rejected     sets.Set[string] // nodes for which provisioning has failed
	retry        time.Time        // not before; zero if no attempt has failed
	event        string           // reason of the last event
	// considered is the number of the last event before a run considered the claim; see fewSelectors.
	considered uint64
}

// stateOf returns the state of the claim, nil if there is none. The caller holds the lock.
func (c *Controller) stateOf(claim *corev1.PersistentVolumeClaim) *state {
	if s := c.state[keyOf(claim)]; s != nil && (s.uid == claim.UID || s.plan != nil) {
		return s
	}
	return nil
}

// observe is syncState for the handlers of the informer. It reports whether the claim waits.
func (c *Controller) observe(key string) (waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.syncState(key)
}

// syncState creates the state of a claim that waits, and drops that of one that does not, unless it
// is being bound. It reads the informer's store under the lock, and is called after each change of
// the store and at the end of each attempt. So no state remains of a claim that was deleted
// meanwhile. The caller holds the lock.
func (c *Controller) syncState(key string) (waits bool) {
	claim, s := c.waitingClaim(key), c.state[key]
	switch {
	case s != nil && s.plan != nil:
	case claim == nil:
		delete(c.state, key)
		c.backoff.Forget(key)
	case s == nil || s.uid != claim.UID:
		c.state[key] = &state{uid: claim.UID, since: time.Now()}
		c.backoff.Forget(key)
	}
	return claim != nil
}

// setPlan sets how the claim is being bound; nil if it is not. The caller holds the lock.
func (c *Controller) setPlan(key string, p *plan.Plan, provisioning bool) {
	s := c.state[key]
	if s == nil {
		return
	}
	if s.plan != nil {
		if of := c.onNode[s.plan.Node].Delete(key); len(of) == 0 {
			delete(c.onNode, s.plan.Node)
		}
	}
	s.plan, s.provisioning, s.considered = p, provisioning, 0
	if p != nil && p.Node != "" {
		if c.onNode[p.Node] == nil {
			c.onNode[p.Node] = sets.New[string]()
		}
		c.onNode[p.Node].Insert(key)
	}
}

// waitingClaim returns the claim as the informer has it; nil if it does not wait.
func (c *Controller) waitingClaim(key string) *corev1.PersistentVolumeClaim {
	object, exists, err := c.claims.GetStore().GetByKey(key)
	if claim, ok := object.(*corev1.PersistentVolumeClaim); err == nil && exists && ok && rules.Waits(claim, c.Annotations) {
		return claim
	}
	return nil
}
