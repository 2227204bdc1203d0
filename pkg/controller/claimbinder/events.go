// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/controller/claimbinder/rules"
	"stowage.dev/stowage/pkg/scheduling/claims"
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

// actionBind is the action of all events.
const actionBind = "BindNow"

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

// report is an event about a claim that waits.
type report struct {
	claim  *corev1.PersistentVolumeClaim
	reason string
	note   func() string
}

// report lets the run record an event, unless the last one of the claim had the same reason.
func (c *Controller) report(r *classRun, claim *corev1.PersistentVolumeClaim, reason string, note func() string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.stateOf(claim); s != nil && s.event != reason {
		r.reports = append(r.reports, report{claim, reason, note})
	}
}

// record records events of the run, of all namespaces in turn. What exceeds fewEvents follows in a
// later run.
func (c *Controller) record(r *classRun) {
	if len(r.reports) == 0 {
		return
	}
	slices.SortFunc(r.reports, func(a, b report) int { return claims.ByAge(a.claim, b.claim) })
	inTurn := claims.InTurn(r.reports, func(of report) string { return of.claim.Namespace })
	for _, of := range inTurn[:c.spendEvents(r)] {
		c.event(of.claim, of.reason, of.note())
	}
}

// spendEvents returns how many events the run may record.
func (c *Controller) spendEvents(r *classRun) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, now := c.historyOf(r.class), time.Now()
	if now.Sub(h.since) >= moreEvents {
		h.since, h.reported = now, 0
	}
	few := min(fewEvents-h.reported, len(r.reports))
	h.reported += few
	if few < len(r.reports) {
		r.wake(moreEvents - now.Sub(h.since))
	}
	return few
}

// event records an event about a claim, unless its last one had the same reason.
func (c *Controller) event(claim *corev1.PersistentVolumeClaim, reason, note string) {
	c.mu.Lock()
	s := c.stateOf(claim)
	repeated := s == nil || s.event == reason
	if !repeated {
		s.event = reason
	}
	c.mu.Unlock()
	if !repeated {
		c.Events.Eventf(claim, nil, corev1.EventTypeWarning, reason, actionBind, "%s", note)
	}
}
