// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
)

// The action of events.
const actionProvision = "Provision"

// event reports an event on an object; on, and related unless it is nil, are of the API.
func (c *Controller) event(on, related runtime.Object, of rules.Event) {
	kind := corev1.EventTypeWarning
	if of.Normal {
		kind = corev1.EventTypeNormal
	}
	c.Events.Eventf(on, related, kind, string(of.Reason), actionProvision, "%s", of.Message)
}

// report reports an event on the claim, or on the PersistentVolume or PavVolume if there is none.
func (c *Controller) report(s *situation, event rules.Event) {
	if event.Reason == "" || event.ConditionOnly {
		return
	}
	var on, related runtime.Object = s.Volume, nil
	switch {
	case s.Claim != nil:
		on, related = s.Claim, s.Volume
	case s.PV != nil:
		on, related = s.PV, s.Volume
	}
	c.event(on, related, event)
}

// refusals are the last events of claims that have no PavVolume, so that each is reported once.
type refusals struct {
	mu   sync.Mutex
	last map[types.UID]rules.Event
}

// changed records the event of a claim, and reports whether it is another one than before.
func (r *refusals) changed(claim types.UID, event rules.Event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last[claim] == event {
		return false
	}
	if r.last == nil {
		r.last = map[types.UID]rules.Event{}
	}
	r.last[claim] = event
	return true
}

// forget removes the record of a claim.
func (r *refusals) forget(claim types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, claim)
}

// refuse reports why no volume is made for a claim.
func (c *Controller) refuse(s *situation, step rules.Refuse) {
	if s.Claim != nil && c.refusals.changed(s.Claim.UID, step.Event) {
		c.event(s.Claim, nil, step.Event)
	}
}
