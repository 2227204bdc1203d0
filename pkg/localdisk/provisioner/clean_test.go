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

	"stowage.dev/stowage/pkg/apis/provisioner"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// released adds disks whose volumes are given back, all at once.
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

// TestCleanAndPublishAnew is the way that most disks go.
func TestCleanAndPublishAgain(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := w.disks.add("disk1", "")
		w.start()
		first := w.volume()
		w.useAndRelease("of the first user")
		w.pass(time.Minute)
		second := w.volume()
		if second == nil || second.UID == first.UID {
			t.Fatalf("the volume is %v, and was %s before", second, first.UID)
		}
		if data := w.disks.read(identity); data != "" {
			t.Errorf("the disk holds data %q", data)
		}
		if got, want := w.disks.cleaned(), []string{"disk1"}; !slices.Equal(got, want) {
			t.Errorf("cleaned %q, want %q", got, want)
		}
	})
}

// TestHungClean: a disk that does not answer any more keeps a clean from ever ending,
// and must not keep other disks from being cleaned.
func TestHungClean(t *testing.T) {
	for name, test := range map[string]struct {
		cleaner provisioner.Cleaner
		timeout time.Duration
		// meanwhile is when the others must still wait, after when they must not.
		meanwhile, after time.Duration
	}{
		"a method that tells how far it is: not waited for when it has said nothing for long": {
			cleaner: provisioner.Cleaner{Method: provisioner.MethodZero}, timeout: 24 * time.Hour, meanwhile: 9 * time.Minute, after: 11 * time.Minute,
		},
		"a drive that erases itself says nothing: waited for until its timeout": {
			cleaner: provisioner.Cleaner{Method: provisioner.MethodHDParm}, timeout: 24 * time.Hour, meanwhile: 24 * time.Hour, after: 25 * time.Hour,
		},
		"a command says nothing either": {
			cleaner: provisioner.Cleaner{External: []string{"/bin/clean"}}, timeout: time.Hour, meanwhile: time.Hour, after: 62 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				w.config.MaxCleaning = 1
				w.config.Classes[0].BlockCleaner, w.config.Classes[0].FilesystemCleaner = test.cleaner, test.cleaner
				w.config.Classes[0].CleanTimeout = test.timeout
				until := make(chan struct{})
				w.disks.during = func(_ context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error {
					if request.Target.Name == "disk1" {
						<-until // whatever the context says
						return errors.New("reset by the driver")
					}
					return nil
				}
				defer close(until)
				w.released("disk1")
				w.expect("disk1", "Cleaning")
				w.disks.cleaned()
				w.disks.add("disk2", "")
				w.config.Classes[0].ExistingData = provisioner.ExistingDataClean
				w.disks.write("fs:disk2:/", "of an unknown user")
				w.look()
				w.pass(test.meanwhile - 10*time.Second)
				w.expect("disk2", "Cleaning")
				if got := w.disks.cleaned(); len(got) > 0 {
					t.Errorf("cleaned %q, while there was room for one that was under way", got)
				}
				w.pass(test.after - test.meanwhile)
				w.expect("disk1", "Cleaning: TimedOut")
				if got, want := w.disks.cleaned(), []string{"disk2"}; !slices.Equal(got, want) {
					t.Errorf("cleaned %q, want %q: those that wait, and never the hung one again", got, want)
				}
				w.pass(48 * time.Hour)
				if got := w.disks.cleaned(); len(got) > 0 {
					t.Errorf("cleaned %q", got)
				}
			})
		})
	}
}

// TestSlowClean: one that tells how far it is is waited for, however long it takes.
func TestSlowClean(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.MaxCleaning = 1
		w.disks.during = func(_ context.Context, _ disk.CleanRequest, progress func(disk.Progress) error) error {
			for i := range 100 {
				time.Sleep(9 * time.Minute) //nolint:forbidigo // the bubble's time
				if err := progress(disk.Progress{Done: int64(i), Total: 100, Step: strconv.Itoa(i)}); err != nil {
					return err
				}
			}
			return nil
		}
		w.released("disk1", "disk2")
		for range 99 {
			w.pass(9 * time.Minute)
			if got := w.disks.cleaned(); len(got) > 1 {
				t.Fatalf("cleaned %q at the same time", got)
			}
		}
		w.pass(24 * time.Hour)
		w.disks.cleaned()
		w.expect("disk1", "Pending")
		w.expect("disk2", "Pending")
	})
}

// TestMoreRoom: who allows more cleans at a time does not wait for the next to end.
func TestRaisedLimit(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.MaxCleaning = 1
		w.disks.during = func(ctx context.Context, _ disk.CleanRequest, _ func(disk.Progress) error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		w.released("disk1", "disk2", "disk3")
		if got := w.disks.cleaned(); len(got) != 1 {
			t.Fatalf("cleaning %q, want one", got)
		}
		config := *w.config
		config.MaxCleaning = 2
		w.provisioner.Configure(context.Background(), &config)
		w.pass(time.Second)
		if got := w.disks.cleaned(); len(got) != 1 {
			t.Errorf("began %q, want one more", got)
		}
	})
}

// TestRepairedClean: who repairs the configuration of a clean that fails does not wait
// for its next attempt.
func TestRepairedClean(t *testing.T) {
	inBubble(t, func(w *env) {
		w.disks.during = func(context.Context, disk.CleanRequest, func(disk.Progress) error) error {
			return errors.New("no such command")
		}
		w.released("disk1")
		w.pass(time.Hour)
		w.expect("disk1", "Cleaning: CleanFailed")
		w.disks.mu.Lock()
		w.disks.during = nil
		w.disks.mu.Unlock()
		config := *w.config
		config.ProbeTimeout = 7 * time.Second
		w.provisioner.Configure(context.Background(), &config)
		w.pass(10 * time.Second)
		w.expect("disk1", "Pending")
		w.disks.mu.Lock()
		defer w.disks.mu.Unlock()
		if w.disks.timeout != config.ProbeTimeout {
			t.Errorf("disks may take %s to answer, want %s", w.disks.timeout, config.ProbeTimeout)
		}
	})
}

// TestFailingClean: a disk that cannot be cleaned is neither given up nor worn out, and
// nobody is told more than need be.
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
			inBubble(t, func(w *env) {
				w.disks.during = func(context.Context, disk.CleanRequest, func(disk.Progress) error) error { return test.err }
				w.released("disk1")
				w.pass(time.Minute)
				w.expect("disk1", test.reason)
				w.pass(time.Hour)
				w.disks.cleaned()
				w.events.take()
				w.api.count("get persistentvolumes")
				w.reports.count()
				w.pass(6 * time.Hour)
				w.expect("disk1", test.reason)
				if n := len(w.disks.cleaned()); n < 12 || n > 37 {
					t.Errorf("tried %d times in six hours, want it every 10 minutes", n)
				}
				if n := len(w.events.take()); n > 3*37 {
					t.Errorf("%d events in six hours", n)
				}
				if n := w.api.count("get persistentvolumes"); n > 37 {
					t.Errorf("asked for the volume %d times in six hours", n)
				}
				if n := w.reports.count(); n > 3*37 {
					t.Errorf("wrote the report %d times in six hours", n)
				}
				w.disks.mu.Lock()
				w.disks.during = nil
				w.disks.mu.Unlock()
				w.pass(15 * time.Minute)
				w.expect("disk1", "Pending")
			})
		})
	}
}

// TestCleanAsksTheServer: while the API server cannot say whether a disk is used, it is
// not cleaned; and when it is back that is not put off for long.
func TestCleanAsksTheServer(t *testing.T) {
	inBubble(t, func(w *env) {
		away := false
		w.api.refuse(func(verb, resource, _ string) (error, bool) {
			if away && verb == "get" && resource == "persistentvolumes" {
				return apierrors.NewServiceUnavailable("away"), false
			}
			away = away || verb == "delete" // the deletion is the last that it does
			return nil, false
		})
		w.released("disk1")
		w.pass(time.Hour)
		if got := w.disks.cleaned(); len(got) > 0 {
			t.Errorf("cleaned %q, and nobody knows whether they are used", got)
		}
		w.expect("disk1", "Cleaning")
		if n := w.api.count("get persistentvolumes"); n > 60 {
			t.Errorf("asked %d times in an hour", n)
		}
		w.api.refuse(nil)
		w.pass(3 * time.Minute)
		w.expect("disk1", "Pending")
	})
}

// TestKilledWhileCleaning: the next agent goes on where the last one was.
func TestKilledWhileCleaning(t *testing.T) {
	inBubble(t, func(w *env) {
		var steps []string
		w.disks.during = func(ctx context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error {
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
		w.released("disk1")
		w.events.take()
		w.start()
		synctest.Wait()
		if diff := cmp.Diff([]string{"", "half"}, steps); diff != "" {
			t.Errorf("steps: %s", diff)
		}
		for _, event := range w.events.take() {
			if strings.HasPrefix(event, "Warning") {
				t.Errorf("to stop the agent is no reason to warn: %s", event)
			}
		}
		w.pass(time.Minute)
		w.expect("disk1", "Pending")
	})
}
