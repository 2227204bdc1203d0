// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/loop"
)

// TestEveryStateIsReported: every state is reported with an event of its own.
func TestEveryStateIsReported(t *testing.T) {
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
	c := &Controller{Config: Config{Events: broadcaster.NewRecorder(scheme.Scheme, "test")}, lastEvents: map[string]string{}, states: map[string]lossState{}}
	f := &volumeFacts{volume: ownedVolume("pv", "a", "wwn:1"), node: "a"}
	d := rules.Decision{Cause: rules.NodeGone, Since: time.Now()}
	for _, state := range []struct {
		rules.State
		want string
	}{{rules.Waiting, "will be removed"}, {rules.Unidentified, "kubectl stowage release"}, {rules.Retained, "until an administrator deletes it"}} {
		d.State = state.State
		c.recordState(f, d)
		change, there := <-written.ResultChan()
		if !there {
			t.Fatal("the watch ended")
		}
		event, ok := change.Object.(*eventsv1.Event)
		if !ok || event.Reason != eventLost || !strings.Contains(event.Note, state.want) || event.Series != nil {
			t.Errorf("%s is reported as %+v, want %q", state.State, change.Object, state.want)
		}
	}
	c.forget("pv")
}

// TestDryRunReportsConsequences: a dry run names the pods that would be deleted with the claim, and the
// result for the volume.
func TestDryRunReportsConsequences(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*volumeFacts)
		reason string
		want   []string
	}{
		"a claim with its pods": {
			change: func(f *volumeFacts) {
				for _, name := range []string{"db-1", "db-0"} {
					f.Pods = append(f.Pods, rules.Pod{Namespace: "default", Name: name, UID: name, Controlled: true})
				}
			},
			reason: eventWouldRelease,
			want:   []string{"claim would be deleted now, with pod db-0, pod db-1 (dry run), and then the volume would be removed, and a tombstone would have the disk cleaned"},
		},
		"a volume that would stay by its policy": {
			change: func(f *volumeFacts) { f.Volume.Policy = disk.Retain }, reason: eventWouldRelease,
			want: []string{"deleted now (dry run), and then the volume would stay until an administrator deletes it"},
		},
		"a volume whose disk is on another node": {
			change: func(f *volumeFacts) { f.OtherUse = "node b reports its disk" }, reason: eventWouldRelease,
			want: []string{"then the volume would stay because node b reports its disk"},
		},
		"a volume that names no disk": {
			change: func(f *volumeFacts) { f.Volume.Identity = "" }, reason: eventWouldRelease,
			want: []string{"then the volume would stay because it has no disk identity"},
		},
		"pods whose claim is being deleted": {
			change: func(f *volumeFacts) {
				f.Release, f.Claim.Deleting = &rules.BegunRelease{ClaimUID: "claim", At: f.Now}, true
				f.Pods = []rules.Pod{{Name: "db-0", UID: "pod", Controlled: true}}
			},
			reason: eventWouldRelease, want: []string{"pod db-0 would be deleted now (dry run)"},
		},
		"a volume without a claim": {
			change: func(f *volumeFacts) { f.Claim, f.Volume.Phase = nil, disk.PhaseReleased }, reason: eventWouldRemove,
			want: []string{"the volume would be removed now (dry run), and a tombstone would have the disk cleaned"},
		},
		"one that is retained": {
			change: func(f *volumeFacts) {
				f.Claim, f.Volume.Phase, f.Volume.Policy, f.Volume.Deleting = nil, disk.PhaseReleased, disk.Retain, true
			},
			reason: eventWouldRemove, want: []string{"would have the disk kept with its data"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, f, _ := lostClaim()
			c.Settings.DryRun, f.Volume.Identity = true, "wwn:1"
			tc.change(f)
			reason, note := c.stateEvent(f, rules.Decide(&f.Facts))
			if reason != tc.reason {
				t.Errorf("reported as %q, want %q", reason, tc.reason)
			}
			for _, part := range tc.want {
				if !strings.Contains(note, part) {
					t.Errorf("reported %q, want %q", note, part)
				}
			}
		})
	}
}

// TestDryRunConfirms: a dry run confirms its decisions as a real run does.
func TestDryRunConfirms(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node bool // is back, which the informer does not show
		want int
	}{
		"the node is gone":  {want: 1},
		"the node is there": {node: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, f, client := lostClaim()
			c.Settings.DryRun, c.Settings.ReleasesPerMinute, c.dryRuns = true, new(int32(10)), map[string]dryRunState{}
			defer c.forget("pv")
			if tc.node {
				if err := client.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := c.reconcileFacts(t.Context(), f)
			if errors.Is(err, loop.ErrStale) != tc.node {
				t.Errorf("error %v", err)
			}
			lastEvents := eventsOf(c)
			claims := slices.DeleteFunc(lastEvents, func(e string) bool { return !strings.Contains(e, eventWouldRelease) })
			if (len(claims) > 0) != (tc.want > 0) || (len(c.released) > 0) != (tc.want > 0) {
				t.Errorf("reported %q, counted %v; want it reported: %t", lastEvents, c.released, tc.want > 0)
			}
			if got := writes(client); len(got) > 0 {
				t.Errorf("wrote %q", got)
			}
		})
	}
}

// TestBlockedIsReported: a blocked volume has an event if the decision has a message.
func TestBlockedIsReported(t *testing.T) {
	t.Parallel()
	c, f := &Controller{}, &volumeFacts{volume: ownedVolume("pv", "a", "wwn:1"), node: "a"}
	d := rules.Decision{State: rules.Blocked, Cause: rules.NodeGone, Since: time.Now()}
	if reason, note := c.stateEvent(f, d); reason != "" {
		t.Errorf("reported %s: %q, want nothing", reason, note)
	}
	d.Message = "for the claim that it is reserved for"
	if reason, note := c.stateEvent(f, d); reason != eventLost || !strings.Contains(note, "node a is gone; the volume stays and waits for the claim that") {
		t.Errorf("reported %s: %q", reason, note)
	}
}

// TestLossIsReportedWithTheMark: the loss is reported when the mark is written, because the delay
// may be over at the next reconciliation.
func TestLossIsReportedWithTheMark(t *testing.T) {
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
			c, f, client := lostClaim()
			defer c.forget("pv")
			if tc.err != nil {
				client.PrependReactor("patch", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			}
			f.Mark, f.Terms.Delay = nil, 2*time.Second
			f.Release = &rules.BegunRelease{ClaimUID: "claim", At: f.Now} // of a loss before
			c.recordState(f, rules.Decide(&f.Facts))
			if err := c.apply(t.Context(), f, rules.Decide(&f.Facts)); (err != nil) != (tc.err != nil) {
				t.Fatal(err)
			}
			lastEvents := eventsOf(c)
			if len(lastEvents) != min(len(tc.want), 1) {
				t.Fatalf("reported %q, want one event with %q", lastEvents, tc.want)
			}
			for _, part := range tc.want {
				if !strings.Contains(lastEvents[0], part) {
					t.Errorf("reported %q, want %q", lastEvents, part)
				}
			}
			if tc.err != nil {
				return
			}
			c.recordState(f, rules.Decide(&f.Facts)) // the next turn
			if lastEvents := eventsOf(c); len(lastEvents) > 0 {
				t.Errorf("reported again: %q", lastEvents)
			}
		})
	}
}

// eventsOf returns the events recorded since the last call.
func eventsOf(c *Controller) (lastEvents []string) {
	recorder, ok := c.Events.(*events.FakeRecorder)
	for ok && len(recorder.Events) > 0 {
		lastEvents = append(lastEvents, <-recorder.Events)
	}
	return lastEvents
}
