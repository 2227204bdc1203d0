// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"stowage.dev/stowage/pkg/apis/wellknown"
)

// add adds claims to the informer's store.
func add(t *testing.T, c *Controller, claims ...*corev1.PersistentVolumeClaim) {
	t.Helper()
	for _, claim := range claims {
		if err := c.claims.GetStore().Add(claim); err != nil {
			t.Fatal(err)
		}
		c.observe(keyOf(claim))
	}
}

// collected is a run with its claims.
func collected(c *Controller) (r *classRun, names []string) {
	r = newRun("local")
	c.collect(r, time.Now())
	for _, of := range r.of {
		names = append(names, of.Claim.Name)
	}
	return r, names
}

// TestFailedLast: claims for which an attempt has failed come last, so that they do not keep others
// from being bound.
func TestFailedLast(t *testing.T) {
	t.Parallel()
	c := storesOnly(t)
	add(t, c, claim("a").Obj(), claim("b").Obj(), claim("c").Obj(), claim("d").Obj())
	c.stateOf(claim("a").Obj()).retry = time.Now().Add(-time.Second)
	c.stateOf(claim("b").Obj()).retry = time.Now().Add(time.Hour)
	_, got := collected(c)
	if diff := cmp.Diff([]string{"c", "d", "a"}, got); diff != "" {
		t.Errorf("claims in order (-want +got):\n%s", diff)
	}
}

// TestSelectorsInTurn: a claim with a selector is considered in the next run, whatever the number of
// older ones in another namespace. Those are considered once after each event, and the latest first that
// were not.
func TestSelectorsInTurn(t *testing.T) {
	t.Parallel()
	c := storesOnly(t)
	const n = 3*fewSelectors + 1
	for i := range n {
		add(t, c, claim(fmt.Sprintf("c%03d", i)).MatchLabel("a", "b").Obj())
	}
	times := map[string]int{}
	run := func(wakes bool) {
		t.Helper()
		r, names := collected(c)
		for _, name := range names {
			times[name]++
		}
		if len(names) != fewSelectors || (r.again > 0) != wakes {
			t.Errorf("%d claims, the next run after %s; want %d, and one: %t", len(names), r.again, fewSelectors, wakes)
		}
	}
	run(true)
	add(t, c, claim("z").Namespace("other").MatchLabel("a", "b").Obj())
	run(true)
	if times["z"] != 1 {
		t.Error("the claim of another namespace is not considered")
	}
	run(true)
	run(false)
	if len(times) != n+1 {
		t.Errorf("%d claims were considered in four runs, want %d", len(times), n+1)
	}
	c.enqueueClass("local")
	run(true)
}

// TestEventsInTurn: claims of a namespace with few get their events, whatever the number in another.
func TestEventsInTurn(t *testing.T) {
	t.Parallel()
	c := storesOnly(t)
	recorder := events.NewFakeRecorder(fewEvents)
	c.Events = recorder
	for i := range 2 * fewEvents {
		add(t, c, claim(fmt.Sprintf("c%03d", i)).Annotation(wellknown.BindAnnotation, "x").Obj())
	}
	add(t, c, claim("z").Namespace("other").Annotation(wellknown.BindAnnotation, "x").Obj())
	if _, err := c.assign(t.Context(), "local"); err != nil {
		t.Fatal(err)
	}
	if len(recorder.Events) != fewEvents || c.state["other/z"].event != eventInvalid {
		t.Errorf("%d events, the last of the claim in the other namespace: %q", len(recorder.Events), c.state["other/z"].event)
	}
}
