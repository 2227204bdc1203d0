// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
)

// TestCountJobs: each Job runs until it is observed to have ended, or to be gone, and is counted
// once, by the reason that the report has. Metrics are the process's, so not in parallel.
func TestCountJobs(t *testing.T) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &stowage.LocalDiskReport{}, 0, cache.Indexers{})
	c, err := New(Config{Client: fake.NewClientset(), Reports: &testbed{t: t}, ReportInformer: informer, Namespace: namespace, ConfigMap: "config"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.queue.ShutDown)
	legacyregistry.Reset()
	events := c.countJobs()
	job := func(name string, ended batchv1.JobConditionType) *batchv1.Job {
		made := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1", Labels: map[string]string{wellknown.CleaningLabel: name}}}
		if ended != "" {
			made.Status.Conditions = []batchv1.JobCondition{{Type: ended, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}}
		}
		return made
	}
	for _, name := range []string{"good", "bad", "gone", "exchanged", "killed", "runs"} {
		events.OnAdd(job(name, ""), false)
	}
	events.OnAdd(job("old", batchv1.JobComplete), true) // ended before this controller began
	events.OnDelete(job("old", batchv1.JobComplete))
	for range 2 { // events after the end, too
		events.OnUpdate(job("good", ""), job("good", ""))
	}
	events.OnUpdate(job("good", ""), job("good", batchv1.JobComplete))
	events.OnUpdate(job("good", batchv1.JobComplete), job("good", batchv1.JobComplete))
	events.OnUpdate(job("bad", ""), job("bad", batchv1.JobFailed))
	killed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "killed", Labels: map[string]string{wellknown.CleaningLabel: "killed", batchv1.JobNameLabel: "killed"}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137},
		}}}},
	}
	if err := c.pods.GetIndexer().Add(killed); err != nil {
		t.Fatal(err)
	}
	events.OnUpdate(job("killed", ""), job("killed", batchv1.JobFailed))
	events.OnDelete(cache.DeletedFinalStateUnknown{Obj: job("gone", "")})
	exchanged := job("exchanged", "")
	exchanged.UID = "2"
	events.OnUpdate(job("exchanged", ""), exchanged)
	const want = `
# HELP stowage_controller_cleaning_jobs_failed_total [ALPHA] Cleaning Jobs that failed, by reason as in the node's LocalDiskReport; JobDeleted if they were deleted before they ended.
# TYPE stowage_controller_cleaning_jobs_failed_total counter
stowage_controller_cleaning_jobs_failed_total{reason="BackoffLimitExceeded"} 1
stowage_controller_cleaning_jobs_failed_total{reason="JobDeleted"} 2
stowage_controller_cleaning_jobs_failed_total{reason="OOMKilled"} 1
# HELP stowage_controller_cleaning_jobs_running [ALPHA] Cleaning Jobs that have not ended; 0 on a standby replica.
# TYPE stowage_controller_cleaning_jobs_running gauge
stowage_controller_cleaning_jobs_running 2
# HELP stowage_controller_cleaning_jobs_succeeded_total [ALPHA] Cleaning Jobs that succeeded.
# TYPE stowage_controller_cleaning_jobs_succeeded_total counter
stowage_controller_cleaning_jobs_succeeded_total 1
`
	err = testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want),
		"stowage_controller_cleaning_jobs_failed_total", "stowage_controller_cleaning_jobs_running", "stowage_controller_cleaning_jobs_succeeded_total")
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"exchanged", "runs"} { // the gauge is the process's
		events.OnDelete(job(name, ""))
	}
}

// TestCountCreated: a Job that exists already was counted by the controller that created it.
func TestCountCreated(t *testing.T) {
	runTest(t, func(w *testbed) {
		legacyregistry.Reset()
		w.reconcile()
		report := w.report().DeepCopy()
		report.Status.Jobs = nil // the answer is not observed yet, nor is the Job
		if err := w.c.ReportInformer.GetStore().Update(report); err != nil {
			t.Fatal(err)
		}
		w.reconcile()
		const want = `
# HELP stowage_controller_cleaning_jobs_created_total [ALPHA] Cleaning Jobs that were created.
# TYPE stowage_controller_cleaning_jobs_created_total counter
stowage_controller_cleaning_jobs_created_total 1
`
		if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), "stowage_controller_cleaning_jobs_created_total"); err != nil {
			t.Error(err)
		}
		if n := w.count("create"); n != 2 {
			t.Errorf("asked %d times for a Job, want 2", n)
		}
	})
}
