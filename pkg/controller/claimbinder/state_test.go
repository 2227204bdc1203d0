// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
)

// TestDeletedMeanwhile: no state remains of a claim that is deleted, or deleted and created again,
// while it is read.
func TestDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(c *Controller, read *corev1.PersistentVolumeClaim){
		"collected": func(c *Controller, read *corev1.PersistentVolumeClaim) {
			c.collectOne(newRun("local"), read, time.Now())
		},
		"an event": func(c *Controller, read *corev1.PersistentVolumeClaim) { c.event(read, eventFailed, "") },
		"reported": func(c *Controller, read *corev1.PersistentVolumeClaim) {
			c.report(newRun("local"), read, eventFailed, nil)
		},
		"planned": func(c *Controller, read *corev1.PersistentVolumeClaim) {
			c.begin(read, &plan.Plan{Node: "n1", Provisions: []plan.Provision{{Claim: read}}})
			if _, err := c.bind(t.Context(), keyOf(read)); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := storesOnly(t)
			read := claim("a").Obj()
			use(c, read)
			if len(c.state) > 0 || len(c.onNode) > 0 {
				t.Errorf("states %v and nodes %v are kept", c.state, c.onNode)
			}
			again := claim("a").UID("uid-again").Obj()
			if err := c.claims.GetStore().Add(again); err != nil {
				t.Fatal(err)
			}
			c.observe(keyOf(again))
			use(c, read)
			if s := c.state[keyOf(again)]; s == nil || s.uid != again.UID || s.plan != nil || s.event != "" || len(c.onNode) > 0 {
				t.Errorf("state %+v and nodes %v are kept", s, c.onNode)
			}
		})
	}
}

// TestNodeDeleted: claims that are being bound on the node are enqueued, others are not.
func TestNodeDeleted(t *testing.T) {
	t.Parallel()
	c := storesOnly(t)
	for _, on := range []string{"n1", "n2", ""} {
		c.begin(claim("on-"+on).Obj(), &plan.Plan{Node: on})
		c.binding.Done(first(c))
	}
	c.nodeChanged(nil, node("n1"))
	if n := c.binding.Len(); n != 1 {
		t.Fatalf("%d claims are enqueued, want 1", n)
	}
	if got := first(c); got != "default/on-n1" {
		t.Errorf("claim %s is enqueued, want that on n1", got)
	}
}

// first returns the first claim of the queue.
func first(c *Controller) string {
	key, _ := c.binding.Get()
	return key
}
