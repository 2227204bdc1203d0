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
	d := rules.Decision{Cause: rules.NodeGone, Since: time.Now()}
	for _, state := range []struct {
		rules.State
		want string
	}{{rules.Waiting, "will be removed"}, {rules.Unidentified, "stowage-provisioner release"}, {rules.Retained, "until an administrator deletes it"}} {
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

// TestDryRunTellsAll: a dry run names the pods that would go with the claim, and what would
// become of the volume, and counts both once.
func TestDryRunTellsAll(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*gathered)
		reason string
		want   []string
	}{
		"a claim with its pods": {
			change: func(g *gathered) {
				for _, name := range []string{"db-1", "db-0"} {
					g.Pods = append(g.Pods, rules.Pod{Namespace: "default", Name: name, UID: name, Controlled: true})
				}
			},
			reason: eventWouldRelease,
			want:   []string{"claim would be deleted now, with pod db-0, pod db-1, if this were no dry run, and then the volume would be removed, and a tombstone in LocalDiskReport a would have the disk cleaned"},
		},
		"a volume that would stay by its policy": {
			change: func(g *gathered) { g.Volume.Policy = disk.Retain }, reason: eventWouldRelease,
			want: []string{"deleted now, if this were no dry run, and then the volume would stay until an administrator deletes it"},
		},
		"a volume whose disk is elsewhere": {
			change: func(g *gathered) { g.Elsewhere = "node b reports its disk" }, reason: eventWouldRelease,
			want: []string{"then the volume would stay, as node b reports its disk"},
		},
		"a volume that names no disk": {
			change: func(g *gathered) { g.Volume.Identity = "" }, reason: eventWouldRelease,
			want: []string{"then the volume would stay, as it does not say of which disk it is"},
		},
		"pods whose claim is being deleted": {
			change: func(g *gathered) {
				g.Release, g.Claim.Deleting = &rules.Began{ClaimUID: "claim", At: g.Now}, true
				g.Pods = []rules.Pod{{Name: "db-0", UID: "pod", Controlled: true}}
			},
			reason: eventWouldRelease, want: []string{"pod db-0 would be deleted now, if this were no dry run"},
		},
		"a volume without a claim": {
			change: func(g *gathered) { g.Claim, g.Volume.Phase = nil, disk.PhaseReleased }, reason: eventWouldRemove,
			want: []string{"it would be removed now, if this were no dry run, and a tombstone in LocalDiskReport a would have the disk cleaned"},
		},
		"one that is retained": {
			change: func(g *gathered) {
				g.Claim, g.Volume.Phase, g.Volume.Policy, g.Volume.Deleting = nil, disk.PhaseReleased, disk.Retain, true
			},
			reason: eventWouldRemove, want: []string{"would have the disk kept with its data"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, g, _ := lostClaim()
			c.Settings.DryRun, g.Volume.Identity = true, "wwn:1"
			tc.change(g)
			reason, note := c.words(g, rules.Decide(&g.Facts))
			if reason != tc.reason {
				t.Errorf("told as %q, want %q", reason, tc.reason)
			}
			for _, part := range tc.want {
				if !strings.Contains(note, part) {
					t.Errorf("told %q, want %q", note, part)
				}
			}
		})
	}
}

// TestDryRunConfirms: what a real run would find out before it writes, a dry run finds out
// before it tells.
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
			c, g, client := lostClaim()
			c.Settings.DryRun, c.Settings.ReleasesPerMinute, c.pretended = true, new(int32(10)), map[string]pretence{}
			defer c.forget("pv")
			if tc.node {
				if err := client.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := c.advance(t.Context(), g)
			if errors.Is(err, errAgain) != tc.node {
				t.Errorf("error %v", err)
			}
			told := toldBy(c)
			claims := slices.DeleteFunc(told, func(e string) bool { return !strings.Contains(e, eventWouldRelease) })
			if (len(claims) > 0) != (tc.want > 0) || (len(c.released) > 0) != (tc.want > 0) {
				t.Errorf("told %q, counted %v; want it told: %t", told, c.released, tc.want > 0)
			}
			if got := writes(client); len(got) > 0 {
				t.Errorf("wrote %q", got)
			}
		})
	}
}

// TestWaitingForSomebodyIsTold: by an event, if there is anything to say.
func TestWaitingForSomebodyIsTold(t *testing.T) {
	t.Parallel()
	c, g := &Controller{}, &gathered{volume: oursOf("pv", "a", "wwn:1"), node: "a"}
	d := rules.Decision{State: rules.SomebodyElse, Cause: rules.NodeGone, Since: time.Now()}
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
			g.Release = &rules.Began{ClaimUID: "claim", At: g.Now} // of a loss before
			c.tell(g, rules.Decide(&g.Facts))
			if err := c.act(t.Context(), g, rules.Decide(&g.Facts)); (err != nil) != (tc.err != nil) {
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
			c.tell(g, rules.Decide(&g.Facts)) // the next turn
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
