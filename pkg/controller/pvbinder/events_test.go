// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"stowage.dev/stowage/pkg/controller/pvbinder/rules"
	"stowage.dev/stowage/pkg/testing/builders"
)

// TestEventsOnce: the events of an object are recorded when they change, and again after the object
// needed none.
func TestEventsOnce(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10)
	c := &Controller{Config: Config{Events: recorder}}
	claim, volume := builders.MakePVC("c").Obj(), builders.MakePV("v").Obj()
	waits := rules.Decision{Do: rules.None, Events: []rules.Event{{Reason: "Waits", Note: "for 100% of it"}}}
	fails := rules.Decision{Do: rules.WriteClaimStatus, Events: []rules.Event{{Warning: true, Reason: "Fails", Note: "now"}}}
	for _, d := range []rules.Decision{waits, waits, fails, {Do: rules.WriteClaim}, fails, waits, {Do: rules.None}, waits} {
		c.record(claim, d)
	}
	c.record(volume, waits)
	c.recorded.drop(volumeKey("v"))
	c.record(volume, waits)
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, event)
	}
	const normal, warning = "Normal Waits for 100% of it", "Warning Fails now"
	if diff := cmp.Diff([]string{normal, warning, normal, normal, normal, normal}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestManyEvents: the events of many claims of a namespace that wait follow later; those of other namespaces, and
// those about writes, do not wait. Nothing is kept of claims that are gone.
func TestManyEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const more = 50
		recorder := events.NewFakeRecorder(2 * manyEvents)
		c := &Controller{Config: Config{Events: recorder}}
		waits := rules.Decision{Do: rules.None, Events: []rules.Event{{Reason: "Waits", Note: "for it"}}}
		claims := make([]*v1.PersistentVolumeClaim, manyEvents+more)
		var longest time.Duration
		for i := range claims {
			claims[i] = builders.MakePVC(strconv.Itoa(i)).Obj()
			longest = max(longest, c.record(claims[i], waits))
		}
		if n := len(recorder.Events); n != manyEvents || longest != more*time.Second/eventRate {
			t.Errorf("%d events at once, want %d; the last one is after %s", n, manyEvents, longest)
		}
		c.record(builders.MakePVC("c").Namespace("other").Obj(), waits)
		c.record(claims[0], rules.Decision{Do: rules.WriteClaimStatus, Events: []rules.Event{{Reason: "Lost"}}})
		if n := len(recorder.Events); n != manyEvents+2 {
			t.Errorf("%d events, want two more", n)
		}
		<-time.After(longest)
		for _, claim := range claims[manyEvents:] {
			if later := c.record(claim, waits); later > 0 {
				t.Errorf("claim %s waits for another %s", claim.Name, later)
			}
		}
		if n := len(recorder.Events); n != manyEvents+more+2 {
			t.Errorf("%d events after %s, want %d", n, longest, manyEvents+more+2)
		}
		for _, claim := range append(claims, builders.MakePVC("c").Namespace("other").Obj()) {
			c.recorded.drop(claimKey(keyOf(claim)))
		}
		if n := len(c.recorded.last) + len(c.recorded.limits); n > 0 {
			t.Errorf("%d entries are left", n)
		}
	})
}
