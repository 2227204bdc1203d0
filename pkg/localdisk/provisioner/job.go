// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/logkeys"
)

const (
	// jobGrace is how much longer than its own timeout a clean by Job may take, to be
	// asked for, begun and told of.
	jobGrace = 5 * time.Minute
	// noAnswer is how long a request for a Job may stay without an answer before users
	// are told.
	noAnswer = time.Minute
)

// Tickets keep the agent and the Jobs that clean its disks apart; see package ticket.
// Its methods are safe for concurrent use for different disks.
type Tickets interface {
	// Issue leaves what lets the Job of an attempt at a disk begin.
	Issue(identity disk.Identity, attempt string) error
	// Find is the attempt that a Job may have begun, or may still begin; empty for none.
	Find(identity disk.Identity) (attempt string, err error)
	// Withdraw makes sure that no Job is at work on a disk, nor will be. If one is, the
	// error is a *disk.Problem, VolumeInUse.
	Withdraw(identity disk.Identity) error
}

// withdraw makes sure that no Job cleans a disk that something else is about to happen to.
func (a *Agent) withdraw(identity disk.Identity) error {
	if a.Tickets == nil {
		return nil
	}
	return a.Tickets.Withdraw(identity)
}

// leaves says whether a clean is left to a Job: if the configuration wants that, and the
// controller has a volume to see that it may be.
func (a *Agent) leaves(job *clean) bool {
	step := ""
	if job.Record != nil {
		step = job.Record.Step
	}
	wanted := job.conf.UseJobForCleaning && a.Tickets != nil && a.Reports != nil
	return wanted && job.Volume != nil && !cleanjob.InProcess(job.command, step)
}

// cleaner is who cleans.
func (a *Agent) cleaner(job *clean) Cleaner {
	if job.byJob {
		return &jobCleaner{Agent: a, job: job}
	}
	return a.Cleaner
}

// jobCleaner has a Job clean a disk: it asks for one in the node's report, waits for the
// controller's answer there, and believes nothing of it but that the Job has ended.
// Whether the disk is clean it sees for itself.
type jobCleaner struct {
	*Agent
	job *clean
}

var _ Cleaner = (*jobCleaner)(nil)

// Clean is Cleaner's. Once ctx is cancelled the Job goes on, for the next agent to find;
// once its deadline is exceeded the Job is not wanted any more.
func (c *jobCleaner) Clean(ctx context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error {
	if err := c.idle(ctx, request); err != nil {
		return err
	}
	attempt, err := c.attempt(request.Target.Identity)
	if err != nil {
		return err
	}
	c.ask(&stowage.CleaningRequest{
		Attempt: attempt, VolumeUID: c.job.Volume.UID, Identity: string(request.Target.Identity), Step: stowage.FitStep(request.Step),
	})
	answer, err := c.await(ctx, attempt)
	if errors.Is(err, context.Canceled) {
		return err // the agent ends: the next one finds the ticket
	}
	c.ask(nil)
	if answer.Step != "" {
		if told := progress(disk.Progress{Method: cleanerName(request.Command), Step: answer.Step}); told != nil {
			return told
		}
	}
	if gone := c.Tickets.Withdraw(request.Target.Identity); gone != nil {
		return gone
	}
	if err != nil {
		return fmt.Errorf("wait for a cleaning Job: %w", err)
	}
	return c.conclude(ctx, request, answer)
}

// Restore is Cleaner's.
func (c *jobCleaner) Restore(ctx context.Context, fact disk.Fact, root json.RawMessage) error {
	return c.Cleaner.Restore(ctx, fact, root)
}

// idle makes sure that nobody uses the disk. The Job sees less of the node.
func (c *jobCleaner) idle(ctx context.Context, request disk.CleanRequest) error {
	users, err := c.Inspector.Users(ctx, request.Target, request.Volume)
	if err != nil {
		return fmt.Errorf("find out who uses %s: %w", request.Target.HostPath, err)
	}
	if len(users) > 0 {
		return disk.Problemf(disk.VolumeInUse, "used by %s", users[0])
	}
	return nil
}

// attempt is the one that is under way, as a former agent has left it, or a new one.
func (c *jobCleaner) attempt(identity disk.Identity) (string, error) {
	attempt, err := c.Tickets.Find(identity)
	if err != nil || attempt != "" {
		return attempt, err
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	attempt = hex.EncodeToString(random)
	return attempt, c.Tickets.Issue(identity, attempt)
}

// ask writes a request into the report, or takes it out.
func (c *jobCleaner) ask(request *stowage.CleaningRequest) {
	c.cleans.mu.Lock()
	c.job.request = request
	c.cleans.mu.Unlock()
	c.told.poke()
}

// await waits for the end of an attempt, and tells users why it does not get on.
func (c *jobCleaner) await(ctx context.Context, attempt string) (stowage.CleaningJob, error) {
	var final stowage.CleaningJob
	teller := &answerTeller{told: c.told, job: c.job}
	timer := time.AfterFunc(noAnswer, teller.nothing)
	defer timer.Stop()
	_, err := watchtools.UntilWithSync(ctx, c.ownReport(), &stowage.LocalDiskReport{}, nil, func(event watch.Event) (bool, error) {
		report, ok := event.Object.(*stowage.LocalDiskReport)
		if !ok || event.Type == watch.Deleted || report.Spec.NodeName != c.Node {
			return false, nil
		}
		for _, answer := range report.Status.Jobs {
			if answer.Path == c.job.path && answer.Attempt == attempt {
				teller.tell(answer)
				final = answer
			}
		}
		return final.Final(), nil
	})
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return final, err
}

// ownReport lists and watches the first page of the node's report, which has the
// answers.
func (c *jobCleaner) ownReport() cache.ListerWatcher {
	only := "metadata.name=" + stowage.PageName(c.Node, 1)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return c.Reports.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return c.Reports.Watch(ctx, o)
		},
	}, c.Reports)
}

// conclude says what has become of the disk. That a Job has succeeded is its own word:
// the agent looks, and puts the root back, which no request tells Jobs about.
func (c *jobCleaner) conclude(ctx context.Context, request disk.CleanRequest, answer stowage.CleaningJob) error {
	klog.FromContext(ctx).V(2).Info("A cleaning Job has ended", "path", c.job.path, logkeys.Volume, klog.KRef("", request.Volume),
		"job", answer.Job, "state", answer.State, logkeys.Reason, answer.Reason, "message", answer.Message)
	switch {
	case answer.State == stowage.CleaningJobRefused:
		return disk.Problemf(disk.JobRefused, "the controller makes no Job: %s (%s)", answer.Message, answer.Reason)
	case answer.State != stowage.CleaningJobSucceeded && answer.Reason == string(disk.VolumeInUse):
		return disk.Problemf(disk.VolumeInUse, "Job %s: %s", answer.Job, answer.Message)
	case answer.State != stowage.CleaningJobSucceeded:
		return disk.Problemf(disk.CleanFailed, "Job %s: %s (%s)", answer.Job, answer.Message, answer.Reason)
	}
	if err := c.Restore(ctx, request.Target, request.Root); err != nil {
		return err
	}
	content, found, err := c.Inspector.Cleaned(ctx, request.Target, request.Mode)
	switch {
	case err != nil:
		return fmt.Errorf("look what Job %s has left: %w", answer.Job, err)
	case content != disk.ContentNone:
		return disk.Problemf(disk.CleanFailed, "Job %s says that the disk is clean, and it holds %s", answer.Job, found)
	default:
		return nil
	}
}

// answerTeller tells users why a Job does not get on.
type answerTeller struct {
	told *told
	job  *clean

	mu       sync.Mutex
	answered bool
	problem  string
}

// tell tells of an answer.
func (t *answerTeller) tell(answer stowage.CleaningJob) {
	var problem *disk.Problem
	if answer.Reason != "" && !answer.Final() {
		problem = disk.Problemf(disk.JobWaiting, "%s: %s", answer.Reason, answer.Message)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered = true
	t.say(problem)
}

// nothing tells that there is no answer.
func (t *answerTeller) nothing() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.answered {
		t.say(disk.Problemf(disk.JobWaiting, "no controller has made the cleaning Job for %s: see that stowage-controller runs with cleaning Jobs, or set useJobForCleaning to false", noAnswer))
	}
}

// say tells what is new. The caller holds mu.
func (t *answerTeller) say(problem *disk.Problem) {
	text := ""
	if problem != nil {
		text = problem.Error()
	}
	if text == t.problem {
		return
	}
	t.problem = text
	t.told.decided(t.job.gathered, decide.Decision{Do: decide.None, State: stowage.EntryCleaning, Problem: problem})
}
