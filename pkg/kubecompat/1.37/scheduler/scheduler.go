// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler has what differs between minor versions of kube-scheduler.
package scheduler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// RescoresNode is whether the scheduler, in batches of similar pods, reuses a result while the node
// that it chose fits the next pod too; if not, only when that node is full. For tests.
const RescoresNode = true

// NameInformers makes the metrics of the scheduler's informers carry a name, which must be unique
// in the process until release is called.
func NameInformers(opts *options.Options, name string) (release func(), err error) {
	informers, err := cache.NewInformerName(name)
	if err != nil {
		return nil, err
	}
	opts.InformerName = informers
	return informers.Release, nil
}

// Recorders makes the recorders of events of the scheduler's profiles.
func Recorders(broadcaster events.EventBroadcasterAdapter) profile.RecorderFactory {
	return broadcaster.NewRecorder
}

// BeforeNext makes the scheduler call wait before it takes the next pod or pod group from its
// queue. For tests.
func BeforeNext(s *scheduler.Scheduler, wait func()) {
	next := s.NextEntity
	s.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		wait()
		return next(logger)
	}
}

// AfterAttempt makes the scheduler call attempted when it has chosen a node for a pod or found
// none. For tests.
func AfterAttempt(s *scheduler.Scheduler, attempted func(*v1.Pod)) {
	place := s.SchedulePod
	s.SchedulePod = func(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		result, err := place(ctx, f, state, pod)
		attempted(pod.Pod)
		return result, err
	}
}

// NewQueue makes a scheduling queue without an order of pods. For tests.
func NewQueue(factory informers.SharedInformerFactory, opts ...queue.Option) *queue.PriorityQueue {
	return queue.NewPriorityQueue(func(_, _ fwk.QueuedEntityInfo) bool { return false }, factory, opts...)
}

// AddToQueue adds a new pod. For tests.
func AddToQueue(ctx context.Context, q *queue.PriorityQueue, pod *v1.Pod) {
	q.Add(ctx, pod)
}

// PopFromQueue returns the next pod to schedule, and waits while there is none. For tests.
func PopFromQueue(q *queue.PriorityQueue) (*framework.QueuedPodInfo, error) {
	entity, err := q.Pop(klog.Background())
	if err != nil {
		return nil, err
	}
	return entity.(*framework.QueuedPodInfo), nil
}

// Reject returns a pod to the queue that its UnschedulablePlugins rejected. For tests.
func Reject(q *queue.PriorityQueue, pod *framework.QueuedPodInfo) error {
	return q.AddUnschedulablePodIfNotPresent(klog.Background(), pod, q.SchedulingCycle())
}
