// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	compat "stowage.dev/kubecompat/schedulerperf"
)

// stopwatch takes the times of pods, where the scheduler itself sees them:
// scheduler_perf's own throughput is a mean of whole seconds, of which a
// workload of some hundred pods has few.
type stopwatch struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]*span
}

// span is from when a pod is first seen to when it is first seen bound.
type span struct{ seen, bound time.Time }

func newStopwatch() *stopwatch { return &stopwatch{pods: map[types.NamespacedName]*span{}} }

// watchPods takes times until the workload is done, then writes them beside
// scheduler_perf's results.
func watchPods(tCtx compat.TContext, profile framework.Framework) error {
	w := newStopwatch()
	informer := profile.SharedInformerFactory().Core().V1().Pods().Informer()
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.see,
		UpdateFunc: func(_, pod any) { w.see(pod) },
	})
	if err != nil {
		return err
	}
	tCtx.Cleanup(func() {
		if err := errors.Join(informer.RemoveEventHandler(handle), w.write()); err != nil {
			tCtx.Errorf("take the time of pods: %v", err)
		}
	})
	return nil
}

func (w *stopwatch) see(object any) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	s := w.pods[key]
	if s == nil {
		s = &span{seen: now}
		w.pods[key] = s
	}
	if s.bound.IsZero() && pod.Spec.NodeName != "" {
		s.bound = now
	}
}

// summary has the times of each namespace.
func (w *stopwatch) summary() map[string]podTimes {
	w.mu.Lock()
	defer w.mu.Unlock()
	spans := map[string][]span{}
	for pod, s := range w.pods {
		spans[pod.Namespace] = append(spans[pod.Namespace], *s)
	}
	summary := map[string]podTimes{}
	for namespace, spans := range spans {
		summary[namespace] = timesOf(spans)
	}
	return summary
}

func timesOf(spans []span) podTimes {
	times := podTimes{Pods: len(spans)}
	var first, last time.Time
	var latencies []float64
	for _, s := range spans {
		if first.IsZero() || s.seen.Before(first) {
			first = s.seen
		}
		if s.bound.IsZero() {
			continue
		}
		times.Bound++
		latencies = append(latencies, s.bound.Sub(s.seen).Seconds())
		if s.bound.After(last) {
			last = s.bound
		}
	}
	if times.Bound == 0 {
		return times
	}
	slices.Sort(latencies)
	times.Seconds = last.Sub(first).Seconds()
	times.P50 = latencies[len(latencies)/2]
	times.P99 = latencies[len(latencies)*99/100]
	return times
}

func (w *stopwatch) write() error {
	data, err := json.MarshalIndent(w.summary(), "", "  ")
	if err != nil {
		return err
	}
	dir := flag.Lookup("data-items-dir").Value.String()
	return os.WriteFile(filepath.Join(dir, podTimesFile), data, 0o600)
}
