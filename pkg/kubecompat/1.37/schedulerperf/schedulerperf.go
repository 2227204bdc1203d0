// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedulerperf has what differs between minor versions of scheduler_perf, the benchmarks
// of kube-scheduler.
package schedulerperf

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
)

// TContext is the context of a workload.
type TContext = ktesting.TContext

// Workload has the parameters of a workload.
type Workload interface {
	GetParam(key string) (int, error)
}

// WithNodes makes scheduler_perf call made when it has created nodes of a workload.
func WithNodes(made func(TContext, *scheduler.Scheduler, Workload, *v1.NodeList) error) perf.SchedulerPerfOption {
	return perf.WithNodeUpdateFn(func(ctx TContext, s *scheduler.Scheduler, w *perf.Workload, nodes *v1.NodeList) error {
		return made(ctx, s, w, nodes)
	})
}
