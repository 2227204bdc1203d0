// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/controller/claimbinder/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

const (
	// fewSelectors bounds the claims with label selectors that one run considers: users write the
	// selectors, and evaluating one may read all volumes of a class. The next run continues.
	fewSelectors = 64
	// fewEvents bounds the events about claims of a class in moreEvents; the others follow later.
	fewEvents  = 100
	moreEvents = 10 * time.Second
	// runShare is how many times as long as a run takes no other run for the class begins.
	runShare = 9
)

// classRun is one run for a class.
type classRun struct {
	class   string
	of      []volumecache.Podless
	limit   int
	again   time.Duration // after which to run again; zero if only an event causes that
	waiting int           // claims that wait
}

// assign assigns volumes to the claims of a class that wait, and enqueues those that get one. It
// returns when to do it again; zero if only an event causes that.
func (c *Controller) assign(ctx context.Context, name string) (time.Duration, error) {
	begin := time.Now()
	r := &classRun{class: name}
	err := c.assignClass(ctx, r, begin)
	return c.endRun(r, time.Since(begin)), err
}

func (c *Controller) assignClass(ctx context.Context, r *classRun, begin time.Time) error {
	object := c.volumes.Class(r.class)
	if !rules.Binds(object) {
		return nil
	}
	c.collect(r, begin)
	if len(r.of) == 0 || r.limit <= 0 { // a claim that has been bound causes the next run
		return nil
	}
	assigned, err := c.volumes.Assign(object, r.of, r.limit)
	if err != nil {
		return err
	}
	for i, a := range assigned {
		switch {
		case a.Plan != nil:
			r.waiting--
			c.begin(r.of[i].Claim, a.Plan)
		case a.Err != nil:
			c.report(r, r.of[i].Claim, eventInvalid, a.Err.Error)
		case a.Reason.Code != match.Fits:
			c.reportUnserved(r, r.of[i].Claim, a.Reason)
		}
	}
	klog.FromContext(ctx).V(4).Info("Assigned volumes to claims without pods", logkeys.Class, r.class,
		"claims", len(r.of), "waiting", r.waiting, logkeys.Duration, time.Since(begin))
	return nil
}

// collect sets the claims of the run, in their order, and its limit.
func (c *Controller) collect(r *classRun, now time.Time) {
	all := loop.List[corev1.PersistentVolumeClaim](c.claims, byClass, r.class)
	slices.SortFunc(all, rules.Order)
	var selecting []volumecache.Podless
	r.limit = maxBinding
	for _, claim := range all {
		of, ready := c.collectOne(r, claim, now)
		switch {
		case !ready:
		case claim.Spec.Selector != nil:
			selecting = append(selecting, of)
		default:
			r.of = append(r.of, of)
		}
	}
	if len(selecting) == 0 {
		return
	}
	r.of = append(r.of, c.nextSelecting(r, selecting)...)
	slices.SortStableFunc(r.of, func(a, b volumecache.Podless) int { return rules.Order(a.Claim, b.Claim) })
}

// collectOne returns the claim unless it is being bound, must not be bound now, or waits after a
// failure. The informer may not have observed yet that this process has bound it.
func (c *Controller) collectOne(r *classRun, observed *corev1.PersistentVolumeClaim, now time.Time) (of volumecache.Podless, ready bool) {
	claim := c.volumes.Claim(observed.Namespace, observed.Name)
	if claim == nil || !rules.Waits(claim, c.Annotations) {
		return of, false
	}
	requested, problem := rules.Requested(claim, c.Annotations)
	c.mu.Lock()
	s := c.stateOf(claim)
	binding, retry := s.plan != nil, s.retry.Sub(now)
	if binding && !s.provisioning {
		r.limit--
	}
	of = volumecache.Podless{Claim: claim, Node: rules.Node(claim), Rejected: s.rejected}
	c.mu.Unlock()
	if binding || requested && c.scheduling(keyOf(claim)) {
		return of, false
	}
	r.waiting++
	switch {
	case !requested:
		c.report(r, claim, eventInvalid, func() string { return problem })
	case retry > 0:
		r.wake(retry)
	default:
		return of, true
	}
	return of, false
}

// nextSelecting returns the claims with selectors that the run considers. A round of runs
// considers all; events cause another one.
func (c *Controller) nextSelecting(r *classRun, all []volumecache.Podless) []volumecache.Podless {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.historyOf(r.class)
	if h.next >= len(all) {
		h.next = 0
	}
	first := h.next
	last := min(first+fewSelectors, len(all))
	if h.next = last; first == 0 {
		h.seen = h.events
	}
	if last < len(all) || h.seen != h.events && first > 0 {
		r.wake(runDelay)
	}
	return all[first:last]
}

// scheduling reports whether a scheduler may bind the claim for a pod.
func (c *Controller) scheduling(key string) bool {
	pods, err := c.pods.GetIndexer().IndexKeys(byClaim, key)
	return err != nil || len(pods) > 0
}

// stateOf returns the state of the claim and creates it if necessary. The caller holds the lock.
func (c *Controller) stateOf(claim *corev1.PersistentVolumeClaim) *state {
	key := keyOf(claim)
	s := c.state[key]
	if s == nil || s.uid != claim.UID && s.plan == nil {
		s = &state{uid: claim.UID, since: time.Now()}
		c.state[key] = s
	}
	return s
}

// begin lets a worker bind the claim.
func (c *Controller) begin(claim *corev1.PersistentVolumeClaim, p *plan.Plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stateOf(claim)
	s.plan, s.provisioning = p, false
	c.binding.Add(keyOf(claim))
}

// wake lets the run be repeated after that time at the latest.
func (r *classRun) wake(after time.Duration) {
	if r.again == 0 || after < r.again {
		r.again = after
	}
}

// endRun records how many claims of the class wait, and how long no other run may begin. It
// returns after which time the run is repeated.
func (c *Controller) endRun(r *classRun, took time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.waiting > 0 {
		h := c.historyOf(r.class)
		h.waiting, h.pause = r.waiting, runShare*took
		if r.again > 0 {
			r.again = max(r.again, h.pause)
		}
	} else {
		delete(c.runs, r.class)
	}
	total := 0
	for _, h := range c.runs {
		total += h.waiting
	}
	metrics.SetClaimsWaitingForBinding(total)
	return r.again
}

// historyOf returns the history of the class and creates it if necessary. The caller holds the
// lock.
func (c *Controller) historyOf(class string) *history {
	h := c.runs[class]
	if h == nil {
		h = &history{}
		c.runs[class] = h
	}
	return h
}
