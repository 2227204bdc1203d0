// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/source"
)

// usage is the use of resources since processes began; two are subtracted.
type usage struct {
	// CPU seconds, user and system.
	SchedulerCPU, PVControllerCPU, ControllerCPU, ExtenderCPU float64
	// Writes are the API requests of scheduler and controllers, without events, that changed an
	// object (2xx), Conflicts those refused with 409.
	Writes, Conflicts float64
	// Binds are the extender's calls to bind by outcome: bound, conflict, error.
	Binds map[string]int
	// Seconds and calls of the Filter extension point of volumes per node, from the scheduler's own
	// metrics.
	filterSum, filterCount float64
}

func (u usage) since(before usage) usage {
	u.Binds = maps.Clone(u.Binds)
	for outcome := range u.Binds {
		u.Binds[outcome] -= before.Binds[outcome]
	}
	u.SchedulerCPU -= before.SchedulerCPU
	u.PVControllerCPU -= before.PVControllerCPU
	u.ControllerCPU -= before.ControllerCPU
	u.ExtenderCPU -= before.ExtenderCPU
	u.Writes -= before.Writes
	u.Conflicts -= before.Conflicts
	u.filterSum -= before.filterSum
	u.filterCount -= before.filterCount
	return u
}

// usage reads the use of resources. The processes' own figures are read first at the end of a
// measurement (last) and last at its start, because reading the API server's
// metrics takes a while. The extender counts a bind after
// the pod is seen bound, so its figures are read after that while, too.
func (s *setup) usage(ctx context.Context, last bool) (u usage, err error) {
	steps := []func(context.Context, *usage) error{s.requests, s.filterTime, s.bindCalls, s.cpu}
	if last {
		steps = []func(context.Context, *usage) error{s.cpu, s.awaitPhases, s.requests, s.filterTime, s.bindCalls}
	}
	for _, step := range steps {
		if err := step(ctx, &u); err != nil {
			return u, err
		}
	}
	return u, nil
}

func (s *setup) cpu(_ context.Context, u *usage) error {
	processes := map[*float64]*cluster.Process{
		&u.SchedulerCPU: s.scheduler, &u.PVControllerCPU: s.cluster.ControllerManager().Process(), &u.ControllerCPU: s.controller,
	}
	if s.extender != nil {
		processes[&u.ExtenderCPU] = s.extender.Process
	}
	for cpu, process := range processes {
		if process == nil {
			continue
		}
		used, err := source.Used(process)
		if err != nil {
			return err
		}
		*cpu = used.CPU
	}
	return nil
}

// bindCalls counts the calls to bind since the extender began, by outcome.
func (s *setup) bindCalls(ctx context.Context, u *usage) error {
	if s.extender == nil {
		return nil
	}
	u.Binds = map[string]int{}
	return source.Metrics(ctx, s.extender.Process, "stowage_extender_binds_total", func(m *dto.Metric, labels map[string]string) {
		u.Binds[labels["outcome"]] = int(m.GetCounter().GetValue())
	})
}

// phaseTime is how long the phases of volumes may take: VolumeTopology leaves them to the PV
// controller for 10 s, and writes those that it has not set.
const phaseTime = 30 * time.Second

// awaitPhases waits until every volume of a bound claim has the phase Bound, so that all writes of
// binding are counted.
func (s *setup) awaitPhases(ctx context.Context, _ *usage) error {
	claims, err := s.client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	open := sets.Set[string]{}
	for i := range claims.Items {
		if claims.Items[i].Status.Phase == v1.ClaimBound {
			open.Insert(claims.Items[i].Spec.VolumeName)
		}
	}
	if len(open) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, phaseTime)
	defer cancel()
	if _, err := await.Object(limited, s.client.CoreV1().PersistentVolumes(), "", func(pv *v1.PersistentVolume) bool {
		if pv.Status.Phase == v1.VolumeBound {
			open.Delete(pv.Name)
		}
		return len(open) == 0
	}); err != nil {
		return fmt.Errorf("wait for phase Bound of %d volumes, %.100v: %w", len(open), sets.List(open), err)
	}
	return nil
}

// requests counts the API requests of scheduling. The load's
// own creations and deletions, and those of controllers and provisioners that
// make pods and volumes, are not among them: they are the same in all arms.
func (s *setup) requests(ctx context.Context, u *usage) error {
	return source.Metrics(ctx, s.cluster.APIServer().Process(), "apiserver_request_total", func(m *dto.Metric, labels map[string]string) {
		switch code := labels["code"]; {
		case !isSchedulingWrite(labels):
		case strings.HasPrefix(code, "2"):
			u.Writes += m.GetCounter().GetValue()
		case code == "409":
			u.Conflicts += m.GetCounter().GetValue()
		}
	})
}

func isSchedulingWrite(labels map[string]string) bool {
	switch labels["resource"] {
	case "pods", "persistentvolumes", "persistentvolumeclaims":
	default:
		return false
	}
	switch labels["verb"] {
	case "PUT", "PATCH", "APPLY":
		return true
	case "POST":
		return labels["subresource"] == "binding"
	}
	return false
}

// filterTime reads the duration of Filter of the arm's volume plugin, from
// the sample of pods for which the scheduler records it.
func (s *setup) filterTime(ctx context.Context, u *usage) error {
	if s.scheduler == nil {
		return nil
	}
	return source.Metrics(ctx, s.scheduler, "scheduler_plugin_execution_duration_seconds", func(m *dto.Metric, labels map[string]string) {
		if labels["plugin"] == volumePlugin(s.arm) && labels["extension_point"] == "Filter" {
			u.filterSum += m.GetHistogram().GetSampleSum()
			u.filterCount += float64(m.GetHistogram().GetSampleCount())
		}
	})
}
