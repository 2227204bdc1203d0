// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

// dryRunState is what a dry run would have written on a volume.
type dryRunState struct {
	uid     types.UID
	mark    *rules.Mark
	release *rules.BegunRelease
	// removed: the volume would have been removed.
	removed bool
}

// reconcile takes the next action for a volume. It returns after which time to reconcile again; 0
// if an event will enqueue the volume.
func (c *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	object, _, err := c.volumes.GetStore().GetByKey(name)
	if err != nil {
		return 0, fmt.Errorf("get volume %s: %w", name, err)
	}
	volume, exists := object.(*corev1.PersistentVolume)
	if !exists || !c.manages(volume) {
		c.forget(name)
		return 0, nil
	}
	f, err := c.readFacts(volume, time.Now())
	if err != nil || f == nil {
		return 0, err
	}
	return c.reconcileFacts(ctx, f)
}

// reconcileFacts takes the next action for a volume with these facts.
func (c *Controller) reconcileFacts(ctx context.Context, f *volumeFacts) (time.Duration, error) {
	d := rules.Decide(&f.Facts)
	if c.Settings.DryRun { // what a real run would find out before it writes, too
		if err := c.confirm(ctx, f, d); err != nil {
			return 0, err
		}
	}
	c.recordState(f, d)
	if d.Do == rules.None {
		return c.requeueAfter(f, d), nil
	}
	klog.FromContext(ctx).V(4).Info("Decided", "action", d.Do, logkeys.Volume, klog.KObj(f.volume), logkeys.Node, klog.KRef("", f.node), logkeys.Reason, d.Cause)
	if c.Settings.DryRun {
		return c.simulate(f, d), nil
	}
	if err := c.confirm(ctx, f, d); err != nil {
		return 0, err
	}
	return 0, c.apply(ctx, f, d)
}

// requeueAfter is the time until the decision changes without an event.
func (c *Controller) requeueAfter(f *volumeFacts, d rules.Decision) time.Duration {
	switch d.State {
	case rules.Waiting:
		return max(d.Due.Sub(f.Now), time.Millisecond)
	case rules.Throttled:
		return max(rules.AvailableAt(c.otherReleases(f), int(*c.Settings.ReleasesPerMinute), f.Now).Sub(f.Now), time.Millisecond)
	default:
		return 0
	}
}

// simulate records the action of a dry run instead of taking it.
func (c *Controller) simulate(f *volumeFacts, d rules.Decision) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.dryRuns[f.volume.Name]
	if p.uid != f.volume.UID {
		p = dryRunState{uid: f.volume.UID}
	}
	switch d.Do {
	case rules.MarkLost:
		p.mark = &rules.Mark{Cause: d.Cause, Since: d.Since}
	case rules.RemoveMark:
		p = dryRunState{}
	case rules.BeginRelease:
		p.release = &rules.BegunRelease{ClaimUID: f.Claim.UID, At: f.Now}
		c.count(f.volume.UID, f.Now)
		metrics.CountNodeLossRelease(metrics.LossDryRun)
		if _, then := rules.AfterRelease(&f.Facts); then.State == rules.Removing {
			p.remove()
		}
	case rules.AddTombstone, rules.DeleteVolume, rules.RemoveFinalizer, rules.DeletePavVolume:
		p.remove()
		c.dryRuns[f.volume.Name] = p
		return 0
	default:
		return 0
	}
	c.dryRuns[f.volume.Name] = p
	return time.Millisecond
}

// remove records that the volume would have been removed, and counts it once.
func (p *dryRunState) remove() {
	if !p.removed {
		metrics.CountNodeLossRemoval(metrics.LossDryRun)
	}
	p.removed = true
}

// notLogged reports whether a dry run has not yet logged this about an object, by its kind and name:
// no volume has such a name.
func (c *Controller) notLogged(key, news string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastEvents[key] == news {
		return false
	}
	c.lastEvents[key] = news
	return true
}

// forget drops the state of a volume that is no longer owned.
func (c *Controller) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.dryRuns, name)
	delete(c.lastEvents, name)
	c.setState(name, lossState{})
}

// setState updates the metric of lost volumes. The caller holds mu.
func (c *Controller) setState(name string, s lossState) {
	before := c.states[name]
	if before == s {
		return
	}
	if before != (lossState{}) {
		metrics.AddNodeLossVolumes(before.cause, before.state, -1)
	}
	delete(c.states, name)
	if s != (lossState{}) {
		c.states[name] = s
		metrics.AddNodeLossVolumes(s.cause, s.state, 1)
	}
}

// count records a release and drops expired ones. The caller holds mu.
func (c *Controller) count(uid types.UID, at time.Time) {
	c.released[string(uid)] = at
	for uid, when := range c.released {
		if when.Before(at.Add(-2 * rules.Window)) {
			delete(c.released, uid)
		}
	}
}
