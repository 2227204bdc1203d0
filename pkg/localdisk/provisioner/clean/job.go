// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/logkeys"
)

const (
	// jobGrace is added to the timeout of a clean by a Job, for the request, the start of the
	// Job and the answer.
	jobGrace = 5 * time.Minute
	// jobAnswerTimeout is how long a request for a Job may have no answer before that is
	// reported.
	jobAnswerTimeout = time.Minute
)

// Tickets exclude the provisioner and a Job from cleaning the same disk at a time; see package
// ticket. The methods are safe for concurrent use for different disks.
type Tickets interface {
	// Issue creates the ticket without which the Job of an attempt does not start.
	Issue(identity disk.Identity, attempt string) error
	// Find returns the attempt that a Job may have started, or may still start; empty for none.
	Find(identity disk.Identity) (attempt string, err error)
	// Withdraw prevents Jobs from starting to clean a disk. If one is running, the error is a
	// *disk.Problem, VolumeInUse.
	Withdraw(identity disk.Identity) error
}

// Reports lists and watches LocalDiskReports.
type Reports interface {
	List(ctx context.Context, opts metav1.ListOptions) (*stowage.LocalDiskReportList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// jobCleaner cleans a disk by a Job: it requests one in the node's report, and waits for the
// controller's answer there. It trusts the answer only that the Job has ended, and checks
// itself whether the disk is clean.
type jobCleaner struct {
	*Cleans
	job *clean
}

// Clean has the contract of Cleaner.Clean. If ctx is cancelled the Job continues, and the next provisioner
// finds it; if the deadline is exceeded the request is removed.
func (c *jobCleaner) Clean(ctx context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error {
	if err := c.idle(ctx, request); err != nil {
		return err
	}
	attempt, err := c.attempt(request.Target.Identity)
	if err != nil {
		return err
	}
	c.request(&stowage.CleaningRequest{
		Attempt: attempt, VolumeUID: c.job.Volume.UID, Identity: string(request.Target.Identity), Step: stowage.FitStep(request.Step),
	})
	answer, err := c.await(ctx, attempt)
	if errors.Is(err, context.Canceled) {
		return err // the provisioner ends: the next one finds the ticket
	}
	c.request(nil)
	if answer.Step != "" {
		if err := progress(disk.Progress{Method: cleanerName(request.Command), Step: answer.Step}); err != nil {
			return err
		}
	}
	if err := c.Tickets.Withdraw(request.Target.Identity); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("wait for a cleaning Job: %w", err)
	}
	return c.conclude(ctx, request, answer)
}

// idle returns an error if the disk is in use. The Job cannot see all users on the node.
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

// attempt returns the attempt that a former provisioner has started, or a new one.
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

// request adds a request to the report; nil removes it.
func (c *jobCleaner) request(request *stowage.CleaningRequest) {
	c.mu.Lock()
	c.job.request = request
	c.mu.Unlock()
	c.Status.Changed()
}

// await waits for the end of an attempt, and reports why it does not progress.
func (c *jobCleaner) await(ctx context.Context, attempt string) (stowage.CleaningJob, error) {
	var final stowage.CleaningJob
	var mu sync.Mutex // for answered, and while a problem is reported
	answered := false
	report := func(problem *disk.Problem) {
		c.Status.Decided(c.job.Slot, decide.Decision{Do: decide.None, State: stowage.EntryCleaning, Problem: problem})
	}
	timer := time.AfterFunc(jobAnswerTimeout, func() {
		mu.Lock()
		defer mu.Unlock()
		if !answered {
			report(disk.Problemf(disk.JobWaiting, "no controller has created the cleaning Job for %s: check that stowage-controller runs with cleaning Jobs, or set useJobForCleaning to false", jobAnswerTimeout))
		}
	})
	defer timer.Stop()
	_, err := watchtools.UntilWithSync(ctx, c.ownReport(), &stowage.LocalDiskReport{}, nil, func(event watch.Event) (bool, error) {
		page, ok := event.Object.(*stowage.LocalDiskReport)
		if !ok || event.Type == watch.Deleted || page.Spec.NodeName != c.Node {
			return false, nil
		}
		mu.Lock()
		defer mu.Unlock()
		for _, answer := range page.Status.Jobs {
			if answer.Path != c.job.Path || answer.Attempt != attempt {
				continue
			}
			answered, final = true, answer
			var problem *disk.Problem
			if answer.Reason != "" && !answer.Final() {
				problem = disk.Problemf(disk.JobWaiting, "%s: %s", answer.Reason, answer.Message)
			}
			report(problem)
		}
		return final.Final(), nil
	})
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return final, err
}

// ownReport lists and watches the first page of the node's report, which has the answers.
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

// conclude returns an error unless the disk is clean. It does not trust that a Job succeeded,
// and restores the root, which requests do not contain.
func (c *jobCleaner) conclude(ctx context.Context, request disk.CleanRequest, answer stowage.CleaningJob) error {
	klog.FromContext(ctx).V(2).Info("Cleaning Job ended", "path", c.job.Path, logkeys.Volume, klog.KRef("", request.Volume),
		"job", answer.Job, "state", answer.State, logkeys.Reason, answer.Reason, "message", answer.Message)
	switch {
	case answer.State == stowage.CleaningJobRefused:
		return disk.Problemf(disk.JobRefused, "the controller creates no Job: %s (%s)", answer.Message, answer.Reason)
	case answer.State != stowage.CleaningJobSucceeded && answer.Reason == string(disk.VolumeInUse):
		return disk.Problemf(disk.VolumeInUse, "Job %s: %s", answer.Job, answer.Message)
	case answer.State != stowage.CleaningJobSucceeded:
		return disk.Problemf(disk.CleanFailed, "Job %s: %s (%s)", answer.Job, answer.Message, answer.Reason)
	}
	if err := c.Cleaner.Restore(ctx, request.Target, request.Root); err != nil {
		return err
	}
	content, found, err := c.Inspector.Cleaned(ctx, request.Target, request.Mode)
	switch {
	case err != nil:
		return fmt.Errorf("verify the clean of Job %s: %w", answer.Job, err)
	case content != disk.ContentNone:
		return disk.Problemf(disk.CleanFailed, "Job %s succeeded, but the disk holds %s", answer.Job, found)
	default:
		return nil
	}
}
