// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

const fieldManager = "stowage-cleaning-jobs"

// Reasons of answers, in addition to those of package cleanjob.
const (
	earlierAttempt  disk.Reason = "EarlierAttempt"       // has not ended
	badConfig       disk.Reason = "ConfigurationInvalid" // the provisioner's ConfigMap
	noImage         disk.Reason = "NoImage"              // the image of Jobs is not known
	cannotCreateJob disk.Reason = "CannotCreateJob"
	beingDeleted    disk.Reason = "JobBeingDeleted"
)

// reconcile answers all requests of a node.
func (c *Controller) reconcile(ctx context.Context, node string) error {
	first, requests := c.requests(node)
	var answers []stowage.CleaningJob
	var problems error
	for _, path := range slices.Sorted(maps.Keys(requests)) {
		if len(answers) == stowage.MaxJobs {
			break
		}
		request := requests[path]
		answer, err := c.answer(ctx, request, prior(first, request))
		problems = errors.Join(problems, err)
		answers = append(answers, answer)
	}
	if first != nil {
		problems = errors.Join(problems, c.writeAnswers(ctx, first, answers))
	}
	return errors.Join(problems, c.deleteAll(ctx, c.abandonedJobs(node, requests)))
}

// requests returns the requests in all pages of a node's report, by path, and its first page.
func (c *Controller) requests(node string) (first *stowage.LocalDiskReport, requests map[string]cleanjob.Request) {
	requests = map[string]cleanjob.Request{}
	for report := range stowage.StoredPages(c.ReportInformer.GetStore(), node) {
		if report.Spec.Page == 1 {
			first = report
		}
		for i := range report.Status.Entries {
			e := &report.Status.Entries[i]
			if e.Cleaning == nil || e.Cleaning.Request == nil || e.Path == "" {
				continue
			}
			asked := e.Cleaning.Request
			requests[e.Path] = cleanjob.Request{
				Node: node, Key: disk.Key{Class: e.Class, Name: e.Name}, Path: e.Path, Volume: e.Volume,
				VolumeUID: asked.VolumeUID, Identity: disk.Identity(asked.Identity), Attempt: asked.Attempt, Step: asked.Step,
			}
		}
	}
	return first, requests
}

// prior returns the previous answer to a request; empty if there is none.
func prior(first *stowage.LocalDiskReport, r cleanjob.Request) stowage.CleaningJob {
	if first != nil {
		for _, job := range first.Status.Jobs {
			if job.Path == r.Path && job.Attempt == r.Attempt {
				return job
			}
		}
	}
	return stowage.CleaningJob{Path: r.Path, Attempt: r.Attempt}
}

// answer takes the next step for a request and returns its state, also after an error.
func (c *Controller) answer(ctx context.Context, r cleanjob.Request, before stowage.CleaningJob) (stowage.CleaningJob, error) {
	observed := c.observed(r)
	name := cleanjob.Name(r.VolumeUID, r.Attempt)
	switch cleanjob.Decide(r, cleanjob.Answered{Final: before.Final(), Made: before.Job != ""}, observed) {
	case cleanjob.Follow:
		return followJob(before, observed.Job(name), observed.Of(name)), nil
	case cleanjob.VerifyGone:
		return c.checkMissing(ctx, before)
	case cleanjob.Clear:
		waits := disk.Problemf(earlierAttempt, "a Job of an earlier attempt, or its pod, has not ended")
		return answered(before, stowage.CleaningJobWaiting, waits), c.deleteAll(ctx, observed.Others(name))
	case cleanjob.Begin:
		return c.createJob(ctx, r, before)
	default:
		return before, nil
	}
}

// observed returns the Jobs and pods of a volume on the requesting node. A provisioner cannot
// affect those of other nodes, whatever volume it names.
func (c *Controller) observed(r cleanjob.Request) cleanjob.Seen {
	return cleanjob.Seen{
		Jobs: onNode(loop.List[batchv1.Job](c.jobs, byVolume, r.VolumeUID), r.Node),
		Pods: onNode(loop.List[corev1.Pod](c.pods, byVolume, r.VolumeUID), r.Node),
	}
}

func onNode[T metav1.Object](objects []T, node string) []T {
	return slices.DeleteFunc(objects, func(o T) bool { return o.GetLabels()[wellknown.NodeLabel] != localpv.NodeHash(node) })
}

// followJob is how a request stands that has its Job.
func followJob(before stowage.CleaningJob, job *batchv1.Job, pods []*corev1.Pod) stowage.CleaningJob {
	standing := cleanjob.StatusOf(job, pods)
	if standing.State == stowage.CleaningJobRunning && job.DeletionTimestamp != nil {
		standing.Problem = disk.Problemf(beingDeleted, "the Job is being deleted")
	}
	before.Job = job.Name
	if standing.Step != "" {
		before.Step = standing.Step
	}
	return answered(before, standing.State, standing.Problem)
}

// checkMissing checks with the API server that a missing Job is gone.
func (c *Controller) checkMissing(ctx context.Context, before stowage.CleaningJob) (stowage.CleaningJob, error) {
	job, err := c.Client.BatchV1().Jobs(c.Namespace).Get(ctx, before.Job, metav1.GetOptions{})
	switch {
	case err == nil:
		return followJob(before, job, nil), nil
	case !apierrors.IsNotFound(err):
		return before, fmt.Errorf("get Job %s: %w", before.Job, err)
	}
	return answered(before, stowage.CleaningJobFailed, disk.Problemf(cleanjob.JobDeleted, "the Job was deleted before it ended")), nil
}

// createJob creates the Job of an approved request.
func (c *Controller) createJob(ctx context.Context, r cleanjob.Request, before stowage.CleaningJob) (stowage.CleaningJob, error) {
	verdict, err := c.approve(ctx, r)
	switch {
	case err != nil:
		return before, err
	case verdict.wait != nil:
		return answered(before, stowage.CleaningJobWaiting, verdict.wait), nil
	case verdict.refuse != nil:
		klog.FromContext(ctx).Info("Rejected the request for a cleaning Job", logkeys.Node, klog.KRef("", r.Node), "path", r.Path, logkeys.Reason, verdict.refuse.Error())
		return answered(before, stowage.CleaningJobRefused, verdict.refuse), nil
	}
	job := verdict.order.Job(verdict.settings)
	made, err := c.Client.BatchV1().Jobs(c.Namespace).Create(ctx, job, metav1.CreateOptions{})
	if err == nil {
		metrics.CountCleaningJobCreated()
	}
	if apierrors.IsAlreadyExists(err) { // the informer lags behind
		made, err = c.Client.BatchV1().Jobs(c.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	}
	if err != nil {
		return answered(before, stowage.CleaningJobWaiting, disk.Problemf(cannotCreateJob, "%v", err)), fmt.Errorf("create Job %s: %w", job.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Created a cleaning Job", "job", klog.KObj(made), logkeys.Node, klog.KRef("", r.Node), "path", r.Path, logkeys.Volume, klog.KRef("", r.Volume))
	return followJob(before, made, nil), nil
}

// answered returns an answer with a new state.
func answered(before stowage.CleaningJob, state stowage.CleaningJobState, problem *disk.Problem) stowage.CleaningJob {
	now := before
	now.State, now.Reason, now.Message = state, "", ""
	if problem != nil {
		now.Reason, now.Message = string(problem.Reason), problem.Message
	}
	if now.State != before.State || now.Reason != before.Reason || now.Since == nil {
		now.Since = new(metav1.Now())
	}
	return stowage.FitJob(now)
}

// abandonedJobs returns the Jobs of a node that have not been requested for abandonedFor.
func (c *Controller) abandonedJobs(node string, requests map[string]cleanjob.Request) []*batchv1.Job {
	wanted := map[string]bool{}
	for _, r := range requests {
		wanted[cleanjob.Name(r.VolumeUID, r.Attempt)] = true
	}
	var abandonedJobs []*batchv1.Job
	c.mu.Lock()
	defer c.mu.Unlock()
	before, now := c.abandoned[node], map[types.UID]time.Time{}
	for _, job := range loop.List[batchv1.Job](c.jobs, byNode, localpv.NodeHash(node)) {
		if wanted[job.Name] || cleanjob.Ended(job) {
			continue
		}
		since, known := before[job.UID]
		if !known {
			since = time.Now()
		}
		now[job.UID] = since
		if left := abandonedFor - time.Since(since); left > 0 {
			c.queue.AddAfter(node, left)
			continue
		}
		abandonedJobs = append(abandonedJobs, job)
	}
	if c.abandoned[node] = now; len(now) == 0 {
		delete(c.abandoned, node)
	}
	return abandonedJobs
}

// deleteAll deletes Jobs in the foreground: they exist until their pods are gone.
func (c *Controller) deleteAll(ctx context.Context, jobs []*batchv1.Job) error {
	var problems error
	for _, job := range jobs {
		if job.DeletionTimestamp != nil {
			continue
		}
		err := c.Client.BatchV1().Jobs(c.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &job.UID}, PropagationPolicy: new(metav1.DeletePropagationForeground),
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			problems = errors.Join(problems, fmt.Errorf("delete Job %s: %w", job.Name, err))
			continue
		}
		klog.FromContext(ctx).V(2).Info("Deleted a cleaning Job that is no longer requested", "job", klog.KObj(job))
	}
	return problems
}

// writeAnswers applies changed answers to the first page of a report.
func (c *Controller) writeAnswers(ctx context.Context, first *stowage.LocalDiskReport, answers []stowage.CleaningJob) error {
	if equality.Semantic.DeepEqual(first.Status.Jobs, answers) || len(first.Status.Jobs)+len(answers) == 0 {
		return nil
	}
	status := map[string]any{}
	if len(answers) > 0 {
		status["jobs"] = answers
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": stowage.SchemeGroupVersion.String(), "kind": "LocalDiskReport",
		"metadata": map[string]any{"name": first.Name, "uid": first.UID}, // the UID prevents a write to a recreated report
		"status":   status,
	})
	if err != nil {
		return fmt.Errorf("encode the answers for LocalDiskReport %s: %w", first.Name, err)
	}
	_, err = c.Reports.Patch(ctx, first.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("apply answers to LocalDiskReport %s: %w", first.Name, err)
	}
	return nil
}
