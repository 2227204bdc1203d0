// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedulerperf has what differs between minor versions of scheduler_perf, the benchmarks
// of kube-scheduler.
package schedulerperf

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// TContext is the context of a workload.
type TContext = ktesting.TContext

// Workload has the parameters of a workload.
type Workload interface {
	GetParam(key string) (int, error)
}

// WithNodes makes scheduler_perf end each workload with an error: it cannot call a function when it
// has created nodes before Kubernetes 1.36.
func WithNodes(func(TContext, *scheduler.Scheduler, Workload, *v1.NodeList) error) perf.SchedulerPerfOption {
	return perf.WithPrepareFn(func(TContext) error {
		return errors.New("workloads with volumes need scheduler_perf of Kubernetes 1.36 or newer")
	})
}
