// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/metrics"
)

// pretence is what a dry run would have written on a volume.
type pretence struct {
	uid     types.UID
	mark    *rules.Mark
	release *rules.Began
	// removed says that the volume would have been removed.
	removed bool
}

// step does the next thing for a volume, and says after what time to look again; 0 if
// an event will tell.
func (c *Controller) step(ctx context.Context, name string) (time.Duration, error) {
	volume := c.volume(name)
	if volume == nil || !ours(volume) {
		c.forget(name)
		return 0, nil
	}
	g, err := c.gather(volume, time.Now())
	if err != nil || g == nil {
		return 0, err
	}
	return c.advance(ctx, g)
}

// advance does the next thing for a volume of which all is gathered.
func (c *Controller) advance(ctx context.Context, g *gathered) (time.Duration, error) {
	d := rules.Decide(&g.Facts)
	if c.DryRun() { // which tells what would be done, and not what would turn out to be wrong
		if err := c.confirm(ctx, g, d); err != nil {
			return 0, err
		}
	}
	c.tell(g, d)
	if d.Do == rules.None {
		return c.patience(g, d), nil
	}
	klog.FromContext(ctx).V(4).Info("Decided", "action", d.Do, logkeys.Volume, klog.KObj(g.volume), logkeys.Node, klog.KRef("", g.node), logkeys.Reason, d.Cause)
	if c.DryRun() {
		return c.pretendTo(g, d), nil
	}
	if err := c.confirm(ctx, g, d); err != nil {
		return 0, err
	}
	return 0, c.act(ctx, g, d)
}

// patience is how long until something changes by itself.
func (c *Controller) patience(g *gathered, d rules.Decision) time.Duration {
	switch d.State {
	case rules.Waiting:
		return max(d.Due.Sub(g.Now), time.Millisecond)
	case rules.Throttled:
		return max(rules.Refilled(c.spentBesides(g), int(*c.Settings.ReleasesPerMinute), g.Now).Sub(g.Now), time.Millisecond)
	default:
		return 0
	}
}

// pretendTo does nothing, and remembers that it would have.
func (c *Controller) pretendTo(g *gathered, d rules.Decision) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pretended[g.volume.Name]
	if p.uid != g.volume.UID {
		p = pretence{uid: g.volume.UID}
	}
	switch d.Do {
	case rules.MarkLost:
		p.mark = &rules.Mark{Cause: d.Cause, Since: d.Since}
	case rules.Unmark:
		p = pretence{}
	case rules.Begin:
		p.release = &rules.Began{ClaimUID: g.Claim.UID, At: g.Now}
		c.count(g.volume.UID, g.Now)
		metrics.CountNodeLossRelease(metrics.LossDryRun)
		if _, then := rules.AfterRelease(&g.Facts); then.State == rules.Removing {
			p.remove()
		}
	case rules.Bury, rules.Remove, rules.LetGo:
		p.remove()
		c.pretended[g.volume.Name] = p
		return 0
	default:
		return 0
	}
	c.pretended[g.volume.Name] = p
	return time.Millisecond
}

// remove remembers that the volume would have been removed, and counts it once.
func (p *pretence) remove() {
	if !p.removed {
		metrics.CountNodeLossRemoval(metrics.LossDryRun)
	}
	p.removed = true
}

// first reports whether a dry run has not said this of a report yet.
func (c *Controller) first(report, news string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := "report/" + report // no volume has such a name
	if c.told[key] == news {
		return false
	}
	c.told[key] = news
	return true
}

// forget drops what is known of a volume that is none of ours any more.
func (c *Controller) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pretended, name)
	delete(c.told, name)
	c.stand(name, standing{})
}

// stand takes down how a volume stands. The caller holds mu.
func (c *Controller) stand(name string, s standing) {
	before := c.states[name]
	if before == s {
		return
	}
	if before != (standing{}) {
		metrics.AddNodeLossVolumes(before.cause, before.state, -1)
	}
	delete(c.states, name)
	if s != (standing{}) {
		c.states[name] = s
		metrics.AddNodeLossVolumes(s.cause, s.state, 1)
	}
}

// remember takes down a release of our own.
func (c *Controller) remember(uid types.UID, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(uid, at)
}

// count takes down a release, and forgets those that do not count any more. The caller
// holds mu.
func (c *Controller) count(uid types.UID, at time.Time) {
	c.released[string(uid)] = at
	for uid, when := range c.released {
		if when.Before(at.Add(-2 * rules.Window)) {
			delete(c.released, uid)
		}
	}
}

// unavailable says that the API server could not be asked.
func unavailable(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
