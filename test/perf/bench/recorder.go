// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/test/await"
)

// recorder keeps, for each pod of the namespace, or each claim, when it was created and when a
// client's watch showed that it was done. It is safe for concurrent use.
type recorder struct {
	changes await.Changes // of pods that are done

	mu      sync.Mutex
	old     sets.Set[types.UID] // from before the load
	created map[types.UID]time.Time
	ended   map[types.UID]time.Time
}

func newRecorder() *recorder {
	return &recorder{old: sets.Set[types.UID]{}, created: map[types.UID]time.Time{}, ended: map[types.UID]time.Time{}}
}

// watchPods begins to record pods, until the setup is closed.
func (s *setup) watchPods(ctx context.Context) error {
	done := s.workload.done
	if done == nil {
		done = hasNode
	}
	return s.watch(ctx, "pods", &v1.Pod{}, func(o any) {
		pod := o.(*v1.Pod)
		s.recorder.see(pod.UID, done(pod))
	})
}

// watchClaims begins to record claims, which are done when they are bound, until the setup is closed.
func (s *setup) watchClaims(ctx context.Context) error {
	return s.watch(ctx, "persistentvolumeclaims", &v1.PersistentVolumeClaim{}, func(o any) {
		claim := o.(*v1.PersistentVolumeClaim)
		s.recorder.see(claim.UID, claim.Status.Phase == v1.ClaimBound)
	})
}

// watch makes the recorder, and calls see with each object of the namespace.
func (s *setup) watch(ctx context.Context, resource string, example runtime.Object, see func(any)) error {
	s.recorder = newRecorder()
	lw := cache.NewListWatchFromClient(s.client.CoreV1().RESTClient(), resource, namespace, fields.Everything())
	informer := cache.NewSharedInformer(lw, example, 0)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, o any) { see(o) },
	}); err != nil {
		return err
	}
	s.background(ctx, informer.RunWithContext)
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	return nil
}

func (r *recorder) see(pod types.UID, done bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.old.Has(pod) {
		return
	}
	if _, known := r.created[pod]; !known {
		r.created[pod] = now
	}
	if _, known := r.ended[pod]; known || !done {
		return
	}
	r.ended[pod] = now
	r.changes.Notify()
}

// create records when the request that created a pod was sent, which is before
// any watch shows it.
func (r *recorder) create(pod types.UID, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.created[pod] = at
}

// forget restarts the count: known pods are not counted.
func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.old = r.old.Union(sets.KeySet(r.created))
	clear(r.created)
	clear(r.ended)
}

// await waits until n pods are done.
func (r *recorder) await(ctx context.Context, n int) error {
	return r.changes.Wait(ctx, 0, "pods to be done", func() bool { return r.count() >= n })
}

// count is how many pods are done.
func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ended)
}

// first is how many seconds after the first pod's creation one was done; 0 without any.
func (r *recorder) first() (seconds float64) {
	created, last := r.span()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.ended {
		if t.Before(last) {
			last = t
		}
	}
	return last.Sub(created).Seconds()
}

// span is when the first pod was created and the last one was done; zero times
// without a pod.
func (r *recorder) span() (first, last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.created {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	for _, t := range r.ended {
		if t.After(last) {
			last = t
		}
	}
	return first, last
}

// latencies are those of the pods that are done, in seconds.
func (r *recorder) latencies() []float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]float64, 0, len(r.ended))
	for pod, t := range r.ended {
		list = append(list, t.Sub(r.created[pod]).Seconds())
	}
	return list
}

// hasNode reports whether the pod is bound.
func hasNode(pod *v1.Pod) bool { return pod.Spec.NodeName != "" }

// wasRefused reports whether an attempt to schedule the pod has failed.
func wasRefused(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
	})
}
