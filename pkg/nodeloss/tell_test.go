// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"stowage.dev/stowage/pkg/local/loss"
)

// TestEveryStateIsTold: what a volume waits for next is told as well, and not counted as one
// more event of what it waited for first.
func TestEveryStateIsTold(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	written, err := client.EventsV1().Events("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer written.Stop()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &Controller{Config: Config{Events: broadcaster.NewRecorder(scheme.Scheme, "test")}, told: map[string]string{}, states: map[string]standing{}}
	g := &gathered{volume: oursOf("pv", "a", "wwn:1"), node: "a"}
	d := loss.Decision{Cause: loss.NodeGone, Since: time.Now()}
	for _, state := range []struct {
		loss.State
		want string
	}{{loss.Waiting, "will be removed"}, {loss.Unidentified, "stowage-provisioner release"}, {loss.Retained, "until an administrator deletes it"}} {
		d.State = state.State
		c.tell(g, d)
		change, there := <-written.ResultChan()
		if !there {
			t.Fatal("the watch ended")
		}
		event, ok := change.Object.(*eventsv1.Event)
		if !ok || event.Reason != eventLost || !strings.Contains(event.Note, state.want) || event.Series != nil {
			t.Errorf("%s is told as %+v, want %q", state.State, change.Object, state.want)
		}
	}
	c.forget("pv")
}

// TestWaitingForSomebodyIsTold: by an event, if there is anything to say.
func TestWaitingForSomebodyIsTold(t *testing.T) {
	t.Parallel()
	c, g := &Controller{}, &gathered{volume: oursOf("pv", "a", "wwn:1"), node: "a"}
	d := loss.Decision{State: loss.SomebodyElse, Cause: loss.NodeGone, Since: time.Now()}
	if reason, note := c.words(g, d); reason != "" {
		t.Errorf("told %s: %q, want nothing", reason, note)
	}
	d.Message = "for the claim that it is reserved for"
	if reason, note := c.words(g, d); reason != eventLost || !strings.Contains(note, "node a is gone; it stays, and waits for the claim that") {
		t.Errorf("told %s: %q", reason, note)
	}
}

// TestTheLossIsToldWithTheMark: the volume's next turn may come when the delay is over, which
// is too late for a warning. What could not be written down is not told.
func TestTheLossIsToldWithTheMark(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want []string
	}{
		"written down": {want: []string{"Warning VolumeLost", "the claim will be deleted"}},
		"not known":    {err: errors.New("connection lost")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, g, client := lostClaim()
			defer c.forget("pv")
			if tc.err != nil {
				client.PrependReactor("patch", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			}
			g.Mark, g.Terms.Delay = nil, 2*time.Second
			g.Release = &loss.Began{ClaimUID: "claim", At: g.Now} // of a loss before
			c.tell(g, loss.Decide(&g.Facts))
			if err := c.act(t.Context(), g, loss.Decide(&g.Facts)); (err != nil) != (tc.err != nil) {
				t.Fatal(err)
			}
			told := toldBy(c)
			if len(told) != min(len(tc.want), 1) {
				t.Fatalf("told %q, want one event with %q", told, tc.want)
			}
			for _, part := range tc.want {
				if !strings.Contains(told[0], part) {
					t.Errorf("told %q, want %q", told, part)
				}
			}
			if tc.err != nil {
				return
			}
			c.tell(g, loss.Decide(&g.Facts)) // the next turn
			if told := toldBy(c); len(told) > 0 {
				t.Errorf("told again: %q", told)
			}
		})
	}
}

// toldBy are the events that were recorded since it was asked last.
func toldBy(c *Controller) (told []string) {
	recorder, ok := c.Events.(*events.FakeRecorder)
	for ok && len(recorder.Events) > 0 {
		told = append(told, <-recorder.Events)
	}
	return told
}
