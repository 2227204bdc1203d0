// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/provisioner"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// tickets are those that are out, by disk.
type tickets struct {
	mu   sync.Mutex
	out  map[disk.Identity]string
	held map[disk.Identity]bool
}

func newTickets() *tickets {
	return &tickets{out: map[disk.Identity]string{}, held: map[disk.Identity]bool{}}
}

func (t *tickets) Issue(identity disk.Identity, attempt string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out[identity] = attempt
	return nil
}

func (t *tickets) Find(identity disk.Identity) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out[identity], nil
}

func (t *tickets) Withdraw(identity disk.Identity) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[identity] {
		return disk.Problemf(disk.VolumeInUse, "a cleaning Job is at work")
	}
	delete(t.out, identity)
	return nil
}

// hold is what a Job does that begins and, with false, ends.
func (t *tickets) hold(identity disk.Identity, held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[identity] = held
}

// request is what the report asks a Job for; nil for nothing.
func (r *reports) request(name string) *stowage.CleaningRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.known[node].Status.Entries {
		if e.Name == name && e.Cleaning != nil {
			return e.Cleaning.Request
		}
	}
	return nil
}

// answer is what the controller does.
func (e *env) answer(job stowage.CleaningJob) {
	e.t.Helper()
	e.reports.mu.Lock()
	report := e.reports.known[node].DeepCopy()
	report.Status.Jobs = []stowage.CleaningJob{job}
	e.reports.put(report)
	e.reports.mu.Unlock()
	e.pass(3 * time.Second)
}

// asked has a disk given back that a Job is to clean, and returns the request.
func (e *env) requestJob(name string) *stowage.CleaningRequest {
	e.t.Helper()
	e.config.UseJobForCleaning = true
	e.released(name)
	request := e.reports.request(name)
	if request == nil {
		e.t.Fatalf("no Job is asked for: %s is %s", name, e.reason(name))
	}
	return request
}

const diskPath = folder + "/disk1"

// TestCleanByJob is the way that most disks go, if Jobs clean.
func TestCleanByJob(t *testing.T) {
	inBubble(t, func(w *env) {
		request := w.requestJob("disk1")
		volume := w.volume()
		identity := disk.Identity("fs:disk1:/")
		want := stowage.CleaningRequest{Attempt: w.tickets.out[identity], VolumeUID: string(volume.UID), Identity: string(identity)}
		if diff := cmp.Diff(want, *request); diff != "" || want.Attempt == "" {
			t.Error(diff)
		}
		w.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobRunning, Job: "j"})
		w.pass(24 * time.Hour)
		w.expect("disk1", "Cleaning")
		w.disks.write(identity, "")
		w.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobSucceeded, Job: "j"})
		w.pass(time.Minute)
		if second := w.volume(); second == nil || second.UID == volume.UID {
			t.Errorf("the volume is %v, and was %s before", second, volume.UID)
		}
		if got := w.disks.cleaned(); len(got) > 0 {
			t.Errorf("the agent cleaned %q itself", got)
		}
		if got := w.reports.request("disk1"); got != nil {
			t.Errorf("still asks for %v", got)
		}
		if len(w.tickets.out) > 0 {
			t.Errorf("tickets are out: %v", w.tickets.out)
		}
		if jobs := w.reports.known[node].Status.Jobs; len(jobs) != 1 {
			t.Errorf("the controller's answers are %v, which nobody else may change", jobs)
		}
	})
}

// TestJobsWord: what a controller says is believed in as far as it does no harm.
func TestUntrustedAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer stowage.CleaningJob
		want   string
		step   string
	}{
		"a Job has succeeded, and the disk is not empty": {
			answer: stowage.CleaningJob{State: stowage.CleaningJobSucceeded}, want: "Cleaning: CleanFailed",
		},
		"a Job has failed: the next attempt goes on where it was": {
			answer: stowage.CleaningJob{State: stowage.CleaningJobFailed, Reason: "OOMKilled", Message: "killed", Step: "half"},
			want:   "Cleaning: CleanFailed", step: "half",
		},
		"a Job found the disk in use": {
			answer: stowage.CleaningJob{State: stowage.CleaningJobFailed, Reason: "VolumeInUse", Message: "open"}, want: "Cleaning: VolumeInUse",
		},
		"there will be no Job": {
			answer: stowage.CleaningJob{State: stowage.CleaningJobRefused, Reason: "RequestMismatch", Message: "no"}, want: "Cleaning: CleaningJobRefused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				first := w.requestJob("disk1")
				test.answer.Path, test.answer.Attempt, test.answer.Job = diskPath, first.Attempt, "j"
				w.answer(test.answer)
				w.expect("disk1", test.want)
				w.pass(time.Minute)
				second := w.reports.request("disk1")
				if second == nil || second.Attempt == first.Attempt {
					t.Fatalf("asks for %v, want another attempt than %s", second, first.Attempt)
				}
				if second.Step != test.step {
					t.Errorf("the next attempt goes on at %q, want %q", second.Step, test.step)
				}
				if got := w.disks.cleaned(); len(got) > 0 {
					t.Errorf("the agent cleaned %q itself", got)
				}
			})
		})
	}
}

// TestJobThatDoesNotBegin: users are told why.
func TestJobThatDoesNotBegin(t *testing.T) {
	inBubble(t, func(w *env) {
		request := w.requestJob("disk1")
		w.pass(2 * time.Minute)
		w.expect("disk1", "Cleaning: CleaningJobWaiting")
		w.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobRunning, Reason: "ImagePullBackOff", Message: "no such image"})
		w.expect("disk1", "Cleaning: CleaningJobWaiting")
		if !slices.ContainsFunc(w.events.take(), func(e string) bool { return strings.HasPrefix(e, "Warning CleaningJobWaiting") }) {
			t.Error("there is no event of a Job that does not begin")
		}
		w.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobRunning})
		w.expect("disk1", "Cleaning")
		w.answer(stowage.CleaningJob{Path: diskPath, Attempt: "0000000000000000", State: stowage.CleaningJobSucceeded})
		w.expect("disk1", "Cleaning") // the end of another attempt is none of this one's
	})
}

// TestAgentEndsWhileAJobCleans: the Job goes on, and the next agent waits for it.
func TestRestartDuringJob(t *testing.T) {
	inBubble(t, func(w *env) {
		identity := disk.Identity("fs:disk1:/")
		request := w.requestJob("disk1")
		w.tickets.hold(identity, true)
		w.start()
		w.pass(3 * time.Second)
		if again := w.reports.request("disk1"); again == nil || again.Attempt != request.Attempt {
			t.Fatalf("asks for %v, want the attempt %s that is under way", again, request.Attempt)
		}
		w.tickets.hold(identity, false)
		w.disks.write(identity, "")
		w.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobSucceeded})
		w.pass(time.Minute)
		w.expect("disk1", "Pending")
	})
}

// TestJobsAreSwitchedOff: while one cleans, the agent does not; then it does.
func TestJobsAreSwitchedOff(t *testing.T) {
	for name, change := range map[string]func(w *env){
		"by the configuration":       func(w *env) { w.config.UseJobForCleaning = false },
		"because the volume is gone": func(w *env) { w.change(func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }) },
		"by a method that is the agent's": func(w *env) {
			w.config.Classes[0].FilesystemCleaner = provisioner.Cleaner{Method: provisioner.MethodHDParm}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *env) {
				identity := disk.Identity("fs:disk1:/")
				w.requestJob("disk1")
				w.tickets.hold(identity, true)
				w.stop()
				change(w)
				w.start()
				w.pass(time.Minute)
				w.expect("disk1", "Cleaning: VolumeInUse")
				if got := w.disks.cleaned(); len(got) > 0 {
					t.Errorf("cleaned %q beside a Job", got)
				}
				w.tickets.hold(identity, false)
				w.pass(15 * time.Minute)
				if got, want := w.disks.cleaned(), []string{"disk1"}; !slices.Equal(got, want) {
					t.Errorf("cleaned %q, want %q", got, want)
				}
				w.expect("disk1", "Pending")
			})
		})
	}
}

// TestJobThatNeverEnds: it is given up some time after its own timeout, and no other
// begins as long as it may be at work.
func TestJobThatNeverEnds(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.Classes[0].CleanTimeout = time.Hour
		identity := disk.Identity("fs:disk1:/")
		request := w.requestJob("disk1")
		w.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobRunning})
		w.tickets.hold(identity, true)
		w.pass(time.Hour)
		w.expect("disk1", "Cleaning")
		w.events.take()
		w.pass(time.Hour)
		if !slices.ContainsFunc(w.events.take(), func(e string) bool { return strings.HasPrefix(e, "Warning VolumeInUse") }) {
			t.Error("there is no event of a disk that its Job does not let go")
		}
		if again := w.reports.request("disk1"); again == nil || again.Attempt != request.Attempt {
			t.Errorf("asks for %v, want attempt %s or none", again, request.Attempt)
		}
		w.tickets.hold(identity, false)
		w.pass(2 * time.Hour)
		if again := w.reports.request("disk1"); again == nil || again.Attempt == request.Attempt {
			t.Errorf("asks for %v, want another attempt than %s", again, request.Attempt)
		}
	})
}

// TestNoVolumeNoJob: a disk without a volume that holds it is the agent's own to clean.
func TestNoVolumeNoJob(t *testing.T) {
	inBubble(t, func(w *env) {
		w.config.UseJobForCleaning = true
		w.config.Classes[0].ExistingData = provisioner.ExistingDataClean
		w.disks.add("disk1", "of an unknown user")
		w.start()
		w.pass(time.Minute)
		if got, want := w.disks.cleaned(), []string{"disk1"}; !slices.Equal(got, want) {
			t.Errorf("cleaned %q, want %q", got, want)
		}
	})
}
