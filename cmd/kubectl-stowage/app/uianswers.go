// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/fit"
	"stowage.dev/stowage/pkg/inspect/page"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/inspect/why"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
)

// uiAnswers are the answers of why and fit about the snapshot of a page.
type uiAnswers struct {
	*cluster
	namespace string // of questions that name none
}

var _ page.Answers = (*uiAnswers)(nil)

// Why is kubectl stowage why.
func (a *uiAnswers) Why(ctx context.Context, s *snapshot.Snapshot, object v1alpha1.Reference) (any, error) {
	kind := map[string]string{"pod": why.KindPod, "pvc": why.KindClaim, "pv": why.KindVolume, "disk": why.KindDisk, "node": why.KindNode}[object.Kind]
	namespace := ""
	if kind == why.KindPod || kind == why.KindClaim {
		namespace = cmp.Or(object.Namespace, a.namespace)
	}
	if kind == why.KindPod {
		return a.pod(ctx, s, namespace, object.Name)
	}
	unread := false
	report, err := explainStorage(why.StorageQuestion{Snapshot: s, Kind: kind, Namespace: namespace, Name: object.Name},
		func(queries ...snapshot.Query) (*snapshot.Snapshot, error) {
			ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
			defer cancel()
			events, err := a.read(ctx, queries...)
			unread = err != nil // the connection may be lost; what was read before is shown
			return events, nil
		})
	if missing, ok := errors.AsType[*why.NotFoundError](err); ok {
		return nil, notFound(missing)
	}
	if err != nil {
		return nil, err
	}
	if unread {
		report.Unseen = append(report.Unseen, "events")
	}
	return report, nil
}

// eventsTimeout is how long an answer waits for its events.
const eventsTimeout = 3 * time.Second

// notFound returns the error without its hint, which is about flags.
func notFound(missing *why.NotFoundError) error {
	return page.NotFoundError((&why.NotFoundError{Kind: missing.Kind, Namespace: missing.Namespace, Name: missing.Name}).Error())
}

func (a *uiAnswers) pod(ctx context.Context, s *snapshot.Snapshot, namespace, name string) (*v1alpha1.PodReport, error) {
	pod := snapshot.Find[*corev1.Pod](s, namespace, name)
	if pod == nil {
		return nil, notFound(&why.NotFoundError{Kind: why.KindPod, Namespace: namespace, Name: name})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the simulation
	report, err := explainPod(ctx, s, pod, simulators(ctx, s, ""))
	if unknown, ok := errors.AsType[unknownSchedulerError](err); ok {
		return nil, fmt.Errorf("the configuration of scheduler %q is not known: use kubectl stowage why %s -n %s --config FILE", string(unknown), name, namespace)
	}
	return report, err
}

// Pods is Why for several pods, which shares the simulations of their schedulers.
func (a *uiAnswers) Pods(ctx context.Context, s *snapshot.Snapshot) func(snapshot.Name) (*v1alpha1.PodReport, error) {
	known, pods := simulators(ctx, s, ""), map[snapshot.Name]*corev1.Pod(nil)
	return func(name snapshot.Name) (*v1alpha1.PodReport, error) {
		if pods == nil {
			pods = snapshot.By[*corev1.Pod](s)
		}
		pod := pods[name]
		if pod == nil {
			return nil, notFound(&why.NotFoundError{Kind: why.KindPod, Namespace: name.Namespace, Name: name.Name})
		}
		return explainPod(ctx, s, pod, known)
	}
}

// Fit is kubectl stowage fit --claims.
func (a *uiAnswers) Fit(ctx context.Context, s *snapshot.Snapshot, q page.FitQuestion) (*v1alpha1.Fit, error) {
	workload, err := fit.Claims{
		Claims: q.Claims, Namespace: cmp.Or(q.Namespace, a.namespace), Scheduler: schedulerconfig.Name, OnePerNode: q.OnePerNode,
	}.Workload()
	if err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	config := fit.Config{Workload: workload}
	if q.Replicas != "" {
		if workload.Replicas, config.Max, err = parseReplicas(q.Replicas); err != nil {
			return nil, fmt.Errorf("replicas: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the simulation
	return placeReplicas(ctx, s, config, "")
}
