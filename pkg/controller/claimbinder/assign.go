// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/controller/claimbinder/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/claims"
	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

const (
	// fewSelectors bounds the claims with label selectors that one run considers: users write the
	// selectors, and evaluating one may read all volumes of a class. Those that were considered
	// longest ago come first.
	fewSelectors = 64
	// fewEvents bounds the events about claims of a class in moreEvents; the others follow later.
	fewEvents  = 100
	moreEvents = 10 * time.Second
)

// classRun is one run for a class.
type classRun struct {
	class   string
	of      []volumecache.Podless
	limit   int
	again   time.Duration // after which to run again; zero if only an event causes that
	waiting int           // claims that wait
	reports []report
	failed  sets.Set[types.UID] // claims for which an attempt has failed
	// considered is that of the claims with selectors.
	considered map[types.UID]uint64
}

func newRun(class string) *classRun {
	return &classRun{class: class, failed: sets.New[types.UID](), considered: map[types.UID]uint64{}}
}

// assign assigns volumes to the claims of a class that wait, and enqueues those that get one. It
// returns when to do it again; zero if only an event causes that.
func (c *Controller) assign(ctx context.Context, name string) (time.Duration, error) {
	begin := time.Now()
	r := newRun(name)
	err := c.assignClass(ctx, r, begin)
	c.record(r)
	return c.endRun(r), err
}

func (c *Controller) assignClass(ctx context.Context, r *classRun, begin time.Time) error {
	object := c.volumes.Class(r.class)
	if !claims.LateBinding(object) {
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

// collect sets the claims of the run, in the order of priority, and its limit: claims for which no
// attempt has failed come first, then the oldest.
func (c *Controller) collect(r *classRun, now time.Time) {
	c.mu.Lock()
	last := c.historyOf(r.class).last
	c.mu.Unlock()
	all := loop.List[corev1.PersistentVolumeClaim](c.claims, byClass, r.class)
	slices.SortFunc(all, claims.ByAge) // pointers are sorted in less time than what is collected
	r.of, r.limit = make([]volumecache.Podless, 0, len(all)), maxBinding
	var selecting []volumecache.Podless
	for _, observed := range all {
		claim := c.volumes.Claim(observed.Namespace, observed.Name)
		if claim == nil || !rules.Waits(claim, c.Annotations) {
			continue // the informer had not observed yet that this process has bound it
		}
		of, ready := c.collectOne(r, claim, now)
		switch {
		case !ready:
		case claim.Spec.Selector != nil:
			selecting = append(selecting, of)
		default:
			r.of = append(r.of, of)
		}
	}
	r.of = append(r.of, c.nextSelecting(r, selecting, last)...)
	rank := func(of volumecache.Podless) int {
		if r.failed.Has(of.Claim.UID) {
			return 1
		}
		return 0
	}
	slices.SortFunc(r.of, func(a, b volumecache.Podless) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), claims.ByAge(a.Claim, b.Claim))
	})
}

// collectOne returns a claim that waits unless it is being bound, must not be bound now, or waits after
// a failure.
func (c *Controller) collectOne(r *classRun, claim *corev1.PersistentVolumeClaim, now time.Time) (of volumecache.Podless, ready bool) {
	c.mu.Lock()
	c.syncState(keyOf(claim))
	s := c.stateOf(claim)
	if s == nil { // deleted meanwhile
		c.mu.Unlock()
		return of, false
	}
	binding, retry := s.plan != nil, s.retry.Sub(now)
	if binding && !s.provisioning {
		r.limit--
	}
	if !s.retry.IsZero() {
		r.failed.Insert(claim.UID)
	}
	if claim.Spec.Selector != nil {
		r.considered[claim.UID] = s.considered
	}
	of = volumecache.Podless{Claim: claim, Node: rules.Node(claim), Rejected: s.rejected}
	c.mu.Unlock()
	requested := rules.Requested(claim, c.Annotations)
	if binding || requested && c.scheduling(keyOf(claim)) {
		return of, false
	}
	r.waiting++
	switch {
	case !requested:
		c.report(r, claim, eventInvalid, func() string { return rules.Invalid(claim) })
	case retry > 0:
		r.wake(retry)
	default:
		return of, true
	}
	return of, false
}

// nextSelecting returns the claims with selectors that the run considers, of all namespaces in
// turn. Others follow in the next run if they were not considered since the last event.
func (c *Controller) nextSelecting(r *classRun, all []volumecache.Podless, last uint64) []volumecache.Podless {
	slices.SortFunc(all, func(a, b volumecache.Podless) int {
		return cmp.Or(cmp.Compare(r.considered[a.Claim.UID], r.considered[b.Claim.UID]), claims.ByAge(a.Claim, b.Claim))
	})
	all = claims.InTurn(all, func(of volumecache.Podless) string { return of.Claim.Namespace })
	few := min(fewSelectors, len(all))
	if slices.ContainsFunc(all[few:], func(of volumecache.Podless) bool { return r.considered[of.Claim.UID] != last }) {
		r.wake(runDelay)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range all[:few] {
		if s := c.stateOf(of.Claim); s != nil {
			s.considered = last
		}
	}
	return all[:few]
}

// scheduling reports whether a scheduler may bind the claim for a pod.
func (c *Controller) scheduling(key string) bool {
	pods, err := c.pods.GetIndexer().IndexKeys(byClaim, key)
	return err != nil || len(pods) > 0
}

// begin lets a worker bind the claim.
func (c *Controller) begin(claim *corev1.PersistentVolumeClaim, p *plan.Plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := keyOf(claim)
	if s := c.state[key]; s == nil || s.uid != claim.UID { // deleted since; the worker observes that
		c.state[key] = &state{uid: claim.UID, since: time.Now()}
	}
	c.setPlan(key, p, false)
	c.binding.Add(key)
}

// wake lets the run be repeated after that time at the latest.
func (r *classRun) wake(after time.Duration) {
	if r.again == 0 || after < r.again {
		r.again = after
	}
}

// endRun records how many claims of the class wait. It returns after which time the run is repeated.
func (c *Controller) endRun(r *classRun) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.waiting > 0 {
		c.historyOf(r.class).waiting = r.waiting
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
		c.countEvent(h)
	}
	return h
}

// countEvent counts an event that may concern the class. The caller holds the lock.
func (c *Controller) countEvent(h *history) {
	c.counted++
	h.last = c.counted
}
