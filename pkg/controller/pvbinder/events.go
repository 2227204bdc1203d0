// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/pkg/controller/pvbinder/rules"
)

// action is the action of all events.
const action = "Binding"

// Events about objects of a namespace that wait are at most manyEvents at once, and eventRate a second: users
// create the claims. The others follow later.
const manyEvents, eventRate = 100, 10

// recorded has the events of the last decision with any, by object: each is recorded once.
type recorded struct {
	mu     sync.Mutex
	last   map[string]*lastEvents
	limits map[string]*limit // by namespace
}

// lastEvents are the last events of an object.
type lastEvents struct {
	text      string    // of those that are recorded
	due       time.Time // when others may be recorded; zero if there are none
	namespace string
}

// limit is shared by the objects of a namespace.
type limit struct {
	*rate.Limiter
	objects int
}

// Keys of objects.
func claimKey(key string) string   { return "claim " + key }
func volumeKey(name string) string { return "volume " + name }

func (r *recorded) drop(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[key]
	if last == nil {
		return
	}
	delete(r.last, key)
	if of := r.limits[last.namespace]; of.objects > 1 {
		of.objects--
	} else {
		delete(r.limits, last.namespace)
	}
}

// of returns the last events of an object and creates them if necessary. The caller holds the lock.
func (r *recorded) of(key, namespace string) *lastEvents {
	last := r.last[key]
	if last != nil {
		return last
	}
	if r.last == nil {
		r.last, r.limits = map[string]*lastEvents{}, map[string]*limit{}
	}
	last = &lastEvents{namespace: namespace}
	r.last[key] = last
	if r.limits[namespace] == nil {
		r.limits[namespace] = &limit{Limiter: rate.NewLimiter(eventRate, manyEvents)}
	}
	r.limits[namespace].objects++
	return last
}

// news reports whether an object's events differ from its last ones and may be recorded now; later is after
// which time they may be, zero if they do not differ. Events about a write are never late: writes are few.
func (r *recorded) news(key, namespace string, events []rules.Event, write bool) (now bool, later time.Duration) {
	var text strings.Builder
	for _, e := range events {
		text.WriteString(e.Reason + " " + e.Note + "\n")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.of(key, namespace)
	if last.text == text.String() {
		return false, 0
	}
	if !write {
		at := time.Now()
		if last.due.IsZero() {
			last.due = at.Add(r.limits[namespace].ReserveN(at, 1).DelayFrom(at))
		}
		if wait := last.due.Sub(at); wait > 0 {
			return false, wait
		}
	}
	last.text, last.due = text.String(), time.Time{}
	return true, 0
}

// record records the events of a decision about a claim or a volume. It returns after which time to decide
// again because there were too many events; zero if there were not.
func (c *Controller) record(object runtime.Object, d rules.Decision) (later time.Duration) {
	var key, namespace string
	switch o := object.(type) {
	case *v1.PersistentVolumeClaim:
		key, namespace = claimKey(keyOf(o)), o.Namespace
	case *v1.PersistentVolume:
		key = volumeKey(o.Name)
	}
	if len(d.Events) == 0 {
		if d.Do == rules.None {
			c.recorded.drop(key)
		}
		return 0
	}
	now, later := c.recorded.news(key, namespace, d.Events, d.Do != rules.None && d.Do != rules.DecideOnClaim)
	if !now {
		return later
	}
	for _, e := range d.Events {
		kind := v1.EventTypeNormal
		if e.Warning {
			kind = v1.EventTypeWarning
		}
		c.Events.Eventf(object, nil, kind, e.Reason, action, "%s", e.Note)
	}
	return 0
}
