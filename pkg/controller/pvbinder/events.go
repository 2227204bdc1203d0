// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"stowage.dev/stowage/pkg/controller/pvbinder/rules"
)

// action is the action of all events.
const action = "Binding"

// recorded has the events of the last decision with any, by object: each is recorded once.
type recorded struct {
	mu   sync.Mutex
	last map[string]string
}

// Keys of objects.
func claimKey(key string) string   { return "claim " + key }
func volumeKey(name string) string { return "volume " + name }

func (r *recorded) drop(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, key)
}

// news reports whether an object's events differ from its last ones.
func (r *recorded) news(key string, events []rules.Event) bool {
	var text strings.Builder
	for _, e := range events {
		text.WriteString(e.Reason + " " + e.Note + "\n")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]string{}
	}
	known := r.last[key] == text.String()
	r.last[key] = text.String()
	return !known
}

// record records the events of a decision about a claim or a volume.
func (c *Controller) record(object runtime.Object, d rules.Decision) {
	var key string
	switch o := object.(type) {
	case *v1.PersistentVolumeClaim:
		key = claimKey(keyOf(o))
	case *v1.PersistentVolume:
		key = volumeKey(o.Name)
	}
	if len(d.Events) == 0 {
		if d.Do == rules.None {
			c.recorded.drop(key)
		}
		return
	}
	if !c.recorded.news(key, d.Events) {
		return
	}
	for _, e := range d.Events {
		kind := v1.EventTypeNormal
		if e.Warning {
			kind = v1.EventTypeWarning
		}
		c.Events.Eventf(object, nil, kind, e.Reason, action, "%s", e.Note)
	}
}
