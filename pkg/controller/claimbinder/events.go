// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/claimbinder/rules"
	"stowage.dev/stowage/pkg/scheduling/match"
)

// Reasons of events; they are stable.
const (
	eventInvalid  = "InvalidBindNow"
	eventNoVolume = "NoVolumeForClaim"
	eventNoSpace  = "NoCapacityForClaim"
	eventNoNode   = "NoNodeForClaim"
	eventReserved = "ReservedVolumeUnsuitable"
	eventRejected = "NodeRejectedByProvisioner"
	eventFailed   = "BindingClaimFailed"
)

const (
	// actionBind is the action of all events.
	actionBind = "BindNow"
	// maxNote is the longest note of an event in bytes (k8s.io/kubernetes/pkg/apis/core/validation/events.go).
	maxNote = 1024
)

// reportUnserved records why a claim waits.
func (c *Controller) reportUnserved(r *classRun, claim *corev1.PersistentVolumeClaim, why match.Reason) {
	reason := eventReserved
	switch why.Code {
	case match.NoVolume:
		reason = eventNoVolume
	case match.NotEnoughSpace:
		reason = eventNoSpace
	case match.TopologyNotAllowed, match.NodeConflict, match.NodeNotSelected:
		reason = eventNoNode
	}
	c.report(r, claim, reason, func() string {
		var free rules.Stock
		free.Volumes, free.Largest = c.volumes.FreeOf(r.class)
		return rules.Unserved(claim, r.class, why, free)
	})
}

// report records an event about a claim of a class, unless the last one of the claim had the same
// reason. If there were fewEvents already, a later run does.
func (c *Controller) report(r *classRun, claim *corev1.PersistentVolumeClaim, reason string, note func() string) {
	c.mu.Lock()
	s, h, now := c.stateOf(claim), c.historyOf(r.class), time.Now()
	if now.Sub(h.since) >= moreEvents {
		h.since, h.reported = now, 0
	}
	same, later := s.event == reason, h.reported == fewEvents
	if !same && !later {
		s.event = reason
		h.reported++
	}
	c.mu.Unlock()
	switch {
	case same:
	case later:
		r.wake(moreEvents - now.Sub(h.since))
	default:
		c.record(claim, reason, note())
	}
}

// event is report for an attempt to bind a claim, which are few.
func (c *Controller) event(claim *corev1.PersistentVolumeClaim, reason, note string) {
	c.mu.Lock()
	s := c.stateOf(claim)
	same := s.event == reason
	s.event = reason
	c.mu.Unlock()
	if !same {
		c.record(claim, reason, note)
	}
}

func (c *Controller) record(claim *corev1.PersistentVolumeClaim, reason, note string) {
	c.Events.Eventf(claim, nil, corev1.EventTypeWarning, reason, actionBind, "%s", stowage.CutBytes(note, maxNote))
}
