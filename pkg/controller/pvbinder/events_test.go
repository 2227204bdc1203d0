// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
