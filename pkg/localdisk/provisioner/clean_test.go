// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// released adds disks and releases their volumes at the same time.
func (e *env) released(names ...string) {
	e.t.Helper()
	for _, name := range names {
		e.disks.add(name, "")
	}
	e.start()
	for _, phase := range []corev1.PersistentVolumePhase{corev1.VolumeBound, corev1.VolumeReleased} {
		for _, pv := range e.api.volumes() {
			pv.Status.Phase = phase
			pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}
			if err := e.api.Tracker().Update(volumesResource, e.api.renew(&pv), ""); err != nil {
				e.t.Fatal(err)
			}
		}
		e.disks.mu.Lock()
		for identity := range e.disks.data {
			e.disks.data[identity] = "of the first user"
		}
		e.disks.mu.Unlock()
	}
	e.pass(3 * time.Second)
}

// TestCleanAndPublishAgain: a released volume is cleaned and published again.
func TestCleanAndPublishAgain(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := e.disks.add("disk1", "")
		e.start()
		first := e.volume()
		e.useAndRelease("of the first user")
		e.pass(time.Minute)
		second := e.volume()
		if second == nil || second.UID == first.UID {
			t.Fatalf("the volume is %v, and was %s before", second, first.UID)
		}
		if data := e.disks.read(identity); data != "" {
			t.Errorf("the disk holds data %q", data)
		}
		if got, want := e.disks.cleaned(), []string{"disk1"}; !slices.Equal(got, want) {
			t.Errorf("cleaned %q, want %q", got, want)
		}
	})
}

// TestHungClean: a clean that never ends because its disk does not answer must not delay
// the cleans of other disks.
func TestHungClean(t *testing.T) {
	for name, test := range map[string]struct {
		cleaner []string
		timeout time.Duration
		// before is a time at which the others must still wait, after one at which they must
		// not.
		before, after time.Duration
	}{
		"a method that reports progress: until it has made none for long": {
			cleaner: []string{"zero"}, timeout: 24 * time.Hour, before: 9 * time.Minute, after: 11 * time.Minute,
		},
		"a drive that erases itself: until its timeout": {
			cleaner: []string{"hdparm"}, timeout: 24 * time.Hour, before: 24 * time.Hour, after: 25 * time.Hour,
		},
		"a command: until its timeout": {
			cleaner: []string{"/bin/clean"}, timeout: time.Hour, before: time.Hour, after: 62 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.config.MaxCleaning = new(int32(1))
				configure(e.config, func(c *provisioner.Class) {
					c.BlockCleanerCommand, c.FSCleanerCommand, c.CleanTimeout = test.cleaner, test.cleaner, duration(test.timeout)
				})
				until := make(chan struct{})
				e.disks.during = func(_ context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error {
					if request.Target.Name == "disk1" {
						<-until // whatever the context says
						return errors.New("reset by the driver")
					}
					return nil
				}
				defer close(until)
				e.released("disk1")
				e.expect("disk1", "Cleaning")
				e.disks.cleaned()
				e.disks.add("disk2", "")
				configure(e.config, func(c *provisioner.Class) { c.ExistingData = provisioner.ExistingDataClean })
				e.disks.write("fs:disk2:/", "of an unknown user")
				e.look()
				e.pass(test.before - 10*time.Second)
				e.expect("disk2", "Cleaning")
				if got := e.disks.cleaned(); len(got) > 0 {
					t.Errorf("cleaned %q, although the limit was reached", got)
				}
				e.pass(test.after - test.before)
				e.expect("disk1", "Cleaning: TimedOut")
				if got, want := e.disks.cleaned(), []string{"disk2"}; !slices.Equal(got, want) {
					t.Errorf("cleaned %q, want %q: those that wait, and not the hung one again", got, want)
				}
				e.pass(48 * time.Hour)
				if got := e.disks.cleaned(); len(got) > 0 {
					t.Errorf("cleaned %q", got)
				}
			})
		})
	}
}

// TestSlowClean: a clean that makes progress counts against the limit until it ends.
func TestSlowClean(t *testing.T) {
	inBubble(t, func(e *env) {
		e.config.MaxCleaning = new(int32(1))
		e.disks.during = func(_ context.Context, _ disk.CleanRequest, progress func(disk.Progress) error) error {
			for i := range 100 {
				time.Sleep(9 * time.Minute) //nolint:forbidigo // the bubble's time
				if err := progress(disk.Progress{Done: int64(i), Total: 100, Step: strconv.Itoa(i)}); err != nil {
					return err
				}
			}
			return nil
		}
		e.released("disk1", "disk2")
		for range 99 {
			e.pass(9 * time.Minute)
			if got := e.disks.cleaned(); len(got) > 1 {
				t.Fatalf("cleaned %q at the same time", got)
			}
		}
		e.pass(24 * time.Hour)
		e.disks.cleaned()
		e.expect("disk1", "Pending")
		e.expect("disk2", "Pending")
	})
}

// TestRaisedLimit: a raised limit applies at once, not when the next clean ends.
func TestRaisedLimit(t *testing.T) {
	inBubble(t, func(e *env) {
		e.config.MaxCleaning = new(int32(1))
		e.disks.during = func(ctx context.Context, _ disk.CleanRequest, _ func(disk.Progress) error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		e.released("disk1", "disk2", "disk3")
		if got := e.disks.cleaned(); len(got) != 1 {
			t.Fatalf("cleaning %q, want one", got)
		}
		config := *e.config
		config.MaxCleaning = new(int32(2))
		e.provisioner.Configure(context.Background(), &config)
		e.pass(time.Second)
		if got := e.disks.cleaned(); len(got) != 1 {
			t.Errorf("began %q, want one more", got)
		}
	})
}

// TestRepairedClean: after a change of the configuration, failed cleans are retried at once.
func TestRepairedClean(t *testing.T) {
	inBubble(t, func(e *env) {
		e.disks.during = func(context.Context, disk.CleanRequest, func(disk.Progress) error) error {
			return errors.New("no such command")
		}
		e.released("disk1")
		e.pass(time.Hour)
		e.expect("disk1", "Cleaning: CleanFailed")
		e.disks.mu.Lock()
		e.disks.during = nil
		e.disks.mu.Unlock()
		config := *e.config
		config.ProbeTimeout = duration(7 * time.Second)
		e.provisioner.Configure(context.Background(), &config)
		e.pass(10 * time.Second)
		e.expect("disk1", "Pending")
		e.disks.mu.Lock()
		defer e.disks.mu.Unlock()
		if e.disks.timeout != config.ProbeTimeout.Duration {
			t.Errorf("disks may take %s to answer, want %s", e.disks.timeout, config.ProbeTimeout)
		}
	})
}

// TestFailingClean: a disk that cannot be cleaned is retried with backoff, with few events and
// writes of the report.
func TestFailingClean(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		reason string
	}{
		"an error of the device":                     {errors.New("input/output error"), "Cleaning: CleanFailed"},
		"not clean after the clean":                  {disk.Problemf(disk.CleanFailed, "holds ext4"), "Cleaning: CleanFailed"},
		"in use by what only the clean itself finds": {disk.Problemf(disk.VolumeInUse, "used by open /dev/sdb"), "Cleaning: VolumeInUse"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.disks.during = func(context.Context, disk.CleanRequest, func(disk.Progress) error) error { return test.err }
				e.released("disk1")
				e.pass(time.Minute)
				e.expect("disk1", test.reason)
				e.pass(time.Hour)
				e.disks.cleaned()
				e.events.take()
				e.api.count("get persistentvolumes")
				e.reports.count()
				e.pass(6 * time.Hour)
				e.expect("disk1", test.reason)
				if n := len(e.disks.cleaned()); n < 12 || n > 37 {
					t.Errorf("tried %d times in six hours, want it every 10 minutes", n)
				}
				if n := len(e.events.take()); n > 3*37 {
					t.Errorf("%d events in six hours", n)
				}
				if n := e.api.count("get persistentvolumes"); n > 37 {
					t.Errorf("read the volume %d times in six hours", n)
				}
				if n := e.reports.count(); n > 3*37 {
					t.Errorf("wrote the report %d times in six hours", n)
				}
				e.disks.mu.Lock()
				e.disks.during = nil
				e.disks.mu.Unlock()
				e.pass(15 * time.Minute)
				e.expect("disk1", "Pending")
			})
		})
	}
}

// TestCleanAsksTheServer: while the API server does not answer, nothing is cleaned; afterwards
// cleans start soon.
func TestCleanAsksTheServer(t *testing.T) {
	inBubble(t, func(e *env) {
		away := false
		e.api.refuse(func(verb, resource, _ string) (error, bool) {
			if away && verb == "get" && resource == "persistentvolumes" {
				return apierrors.NewServiceUnavailable("away"), false
			}
			away = away || verb == "delete" // the deletion is the last that it does
			return nil, false
		})
		e.released("disk1")
		e.pass(time.Hour)
		if got := e.disks.cleaned(); len(got) > 0 {
			t.Errorf("cleaned %q without an answer of the API server", got)
		}
		e.expect("disk1", "Cleaning")
		if n := e.api.count("get persistentvolumes"); n > 60 {
			t.Errorf("asked %d times in an hour", n)
		}
		e.api.refuse(nil)
		e.pass(3 * time.Minute)
		e.expect("disk1", "Pending")
	})
}

// TestKilledWhileCleaning: the next provisioner resumes at the last step.
func TestKilledWhileCleaning(t *testing.T) {
	inBubble(t, func(e *env) {
		var steps []string
		e.disks.during = func(ctx context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error {
			steps = append(steps, request.Step)
			if len(steps) > 1 {
				return nil
			}
			if err := progress(disk.Progress{Step: "half"}); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		e.released("disk1")
		e.events.take()
		e.start()
		synctest.Wait()
		if diff := cmp.Diff([]string{"", "half"}, steps); diff != "" {
			t.Errorf("steps: %s", diff)
		}
		for _, event := range e.events.take() {
			if strings.HasPrefix(event, "Warning") {
				t.Errorf("a stop of the provisioner caused the warning %s", event)
			}
		}
		e.pass(time.Minute)
		e.expect("disk1", "Pending")
	})
}
