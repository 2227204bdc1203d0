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

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// tickets is a fake of package ticket.
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

// hold locks a ticket as a Job does that starts; with false it unlocks it.
func (t *tickets) hold(identity disk.Identity, held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held[identity] = held
}

// request returns the request in the report; nil if there is none.
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

// answer writes an answer as the controller does.
func (e *env) answer(job stowage.CleaningJob) {
	e.t.Helper()
	e.reports.mu.Lock()
	report := e.reports.known[node].DeepCopy()
	report.Status.Jobs = []stowage.CleaningJob{job}
	e.reports.put(report)
	e.reports.mu.Unlock()
	e.pass(3 * time.Second)
}

// requestJob releases a volume that a Job cleans, and returns the request.
func (e *env) requestJob(name string) *stowage.CleaningRequest {
	e.t.Helper()
	e.config.UseJobForCleaning = true
	e.released(name)
	request := e.reports.request(name)
	if request == nil {
		e.t.Fatalf("no Job is requested: %s is %s", name, e.reason(name))
	}
	return request
}

const diskPath = folder + "/disk1"

// TestCleanByJob cleans a released volume by a Job.
func TestCleanByJob(t *testing.T) {
	inBubble(t, func(e *env) {
		request := e.requestJob("disk1")
		volume := e.volume()
		identity := disk.Identity("fs:disk1:/")
		want := stowage.CleaningRequest{Attempt: e.tickets.out[identity], VolumeUID: string(volume.UID), Identity: string(identity)}
		if diff := cmp.Diff(want, *request); diff != "" || want.Attempt == "" {
			t.Error(diff)
		}
		e.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobRunning, Job: "j"})
		e.pass(24 * time.Hour)
		e.expect("disk1", "Cleaning")
		e.disks.write(identity, "")
		e.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobSucceeded, Job: "j"})
		e.pass(time.Minute)
		if second := e.volume(); second == nil || second.UID == volume.UID {
			t.Errorf("the volume is %v, and was %s before", second, volume.UID)
		}
		if got := e.disks.cleaned(); len(got) > 0 {
			t.Errorf("the provisioner cleaned %q itself", got)
		}
		if got := e.reports.request("disk1"); got != nil {
			t.Errorf("still requests %v", got)
		}
		if len(e.tickets.out) > 0 {
			t.Errorf("tickets are left: %v", e.tickets.out)
		}
		if jobs := e.reports.known[node].Status.Jobs; len(jobs) != 1 {
			t.Errorf("the controller's answers were changed to %v", jobs)
		}
	})
}

// TestUntrustedAnswers: a wrong answer of the controller must not cause data to be published.
func TestUntrustedAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer stowage.CleaningJob
		want   string
		step   string
	}{
		"a Job has succeeded, and the disk is not empty": {
			answer: stowage.CleaningJob{State: stowage.CleaningJobSucceeded}, want: "Cleaning: CleanFailed",
		},
		"a Job has failed: the next attempt resumes at its step": {
			answer: stowage.CleaningJob{State: stowage.CleaningJobFailed, Reason: "OOMKilled", Message: "killed", Step: "half"},
			want:   "Cleaning: CleanFailed", step: "half",
		},
		"a Job found the disk in use": {
			answer: stowage.CleaningJob{State: stowage.CleaningJobFailed, Reason: "VolumeInUse", Message: "open"}, want: "Cleaning: VolumeInUse",
		},
		"the controller refuses": {
			answer: stowage.CleaningJob{State: stowage.CleaningJobRefused, Reason: "RequestMismatch", Message: "no"}, want: "Cleaning: CleaningJobRefused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				first := e.requestJob("disk1")
				test.answer.Path, test.answer.Attempt, test.answer.Job = diskPath, first.Attempt, "j"
				e.answer(test.answer)
				e.expect("disk1", test.want)
				e.pass(time.Minute)
				second := e.reports.request("disk1")
				if second == nil || second.Attempt == first.Attempt {
					t.Fatalf("requests %v, want another attempt than %s", second, first.Attempt)
				}
				if second.Step != test.step {
					t.Errorf("the next attempt resumes at %q, want %q", second.Step, test.step)
				}
				if got := e.disks.cleaned(); len(got) > 0 {
					t.Errorf("the provisioner cleaned %q itself", got)
				}
			})
		})
	}
}

// TestJobThatDoesNotBegin: the reason is reported.
func TestJobThatDoesNotBegin(t *testing.T) {
	inBubble(t, func(e *env) {
		request := e.requestJob("disk1")
		e.pass(2 * time.Minute)
		e.expect("disk1", "Cleaning: CleaningJobWaiting")
		e.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobRunning, Reason: "ImagePullBackOff", Message: "no such image"})
		e.expect("disk1", "Cleaning: CleaningJobWaiting")
		if !slices.ContainsFunc(e.events.take(), func(e string) bool { return strings.HasPrefix(e, "Warning CleaningJobWaiting") }) {
			t.Error("no event for a Job that does not start")
		}
		e.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobRunning})
		e.expect("disk1", "Cleaning")
		e.answer(stowage.CleaningJob{Path: diskPath, Attempt: "0000000000000000", State: stowage.CleaningJobSucceeded})
		e.expect("disk1", "Cleaning") // the end of another attempt is none of this one's
	})
}

// TestRestartDuringJob: the Job continues, and the next provisioner waits for it.
func TestRestartDuringJob(t *testing.T) {
	inBubble(t, func(e *env) {
		identity := disk.Identity("fs:disk1:/")
		request := e.requestJob("disk1")
		e.tickets.hold(identity, true)
		e.start()
		e.pass(3 * time.Second)
		if again := e.reports.request("disk1"); again == nil || again.Attempt != request.Attempt {
			t.Fatalf("requests %v, want the running attempt %s", again, request.Attempt)
		}
		e.tickets.hold(identity, false)
		e.disks.write(identity, "")
		e.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobSucceeded})
		e.pass(time.Minute)
		e.expect("disk1", "Pending")
	})
}

// TestJobsAreSwitchedOff: while a Job is running the provisioner does not clean; then it does.
func TestJobsAreSwitchedOff(t *testing.T) {
	for name, change := range map[string]func(e *env){
		"by the configuration":       func(e *env) { e.config.UseJobForCleaning = false },
		"because the volume is gone": func(e *env) { e.change(func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }) },
		"by a method that only the provisioner has": func(e *env) {
			configure(e.config, func(c *provisioner.Class) { c.FSCleanerCommand = []string{"hdparm"} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				identity := disk.Identity("fs:disk1:/")
				e.requestJob("disk1")
				e.tickets.hold(identity, true)
				e.stop()
				change(e)
				e.start()
				e.pass(time.Minute)
				e.expect("disk1", "Cleaning: VolumeInUse")
				if got := e.disks.cleaned(); len(got) > 0 {
					t.Errorf("cleaned %q at the same time as a Job", got)
				}
				e.tickets.hold(identity, false)
				e.pass(15 * time.Minute)
				if got, want := e.disks.cleaned(), []string{"disk1"}; !slices.Equal(got, want) {
					t.Errorf("cleaned %q, want %q", got, want)
				}
				e.expect("disk1", "Pending")
			})
		})
	}
}

// TestJobThatNeverEnds: the attempt fails some time after its timeout, and no other starts as
// long as the Job may be running.
func TestJobThatNeverEnds(t *testing.T) {
	inBubble(t, func(e *env) {
		configure(e.config, func(c *provisioner.Class) { c.CleanTimeout = duration(time.Hour) })
		identity := disk.Identity("fs:disk1:/")
		request := e.requestJob("disk1")
		e.answer(stowage.CleaningJob{Path: diskPath, Attempt: request.Attempt, State: stowage.CleaningJobRunning})
		e.tickets.hold(identity, true)
		e.pass(time.Hour)
		e.expect("disk1", "Cleaning")
		e.events.take()
		e.pass(time.Hour)
		if !slices.ContainsFunc(e.events.take(), func(e string) bool { return strings.HasPrefix(e, "Warning VolumeInUse") }) {
			t.Error("no event for a disk that its Job still holds")
		}
		if again := e.reports.request("disk1"); again == nil || again.Attempt != request.Attempt {
			t.Errorf("requests %v, want attempt %s or none", again, request.Attempt)
		}
		e.tickets.hold(identity, false)
		e.pass(2 * time.Hour)
		if again := e.reports.request("disk1"); again == nil || again.Attempt == request.Attempt {
			t.Errorf("requests %v, want another attempt than %s", again, request.Attempt)
		}
	})
}

// TestNoVolumeNoJob: the provisioner itself cleans a disk without a volume.
func TestNoVolumeNoJob(t *testing.T) {
	inBubble(t, func(e *env) {
		e.config.UseJobForCleaning = true
		configure(e.config, func(c *provisioner.Class) { c.ExistingData = provisioner.ExistingDataClean })
		e.disks.add("disk1", "of an unknown user")
		e.start()
		e.pass(time.Minute)
		if got, want := e.disks.cleaned(), []string{"disk1"}; !slices.Equal(got, want) {
			t.Errorf("cleaned %q, want %q", got, want)
		}
	})
}
