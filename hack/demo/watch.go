// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
)

// namespace of the demo's pods and claims.
const namespace = "default"

// waitTimeout is the deadline of each wait; what is waited for takes a fraction of a second.
var waitTimeout = deadline.Wait() / 2

// watch observes the demo's objects.
type watch struct {
	pods     corelisters.PodNamespaceLister
	claims   corelisters.PersistentVolumeClaimNamespaceLister
	volumes  corelisters.PersistentVolumeLister
	changes  await.Changes
	shutdown func() // waits for the informers after running has ended
}

// newWatch returns when the informers have synced; ctx limits that. The informers end with running.
func newWatch(ctx, running context.Context, c *cluster.Cluster) (*watch, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client(), 0, informers.WithNamespace(namespace))
	core := factory.Core().V1()
	w := &watch{
		pods:     core.Pods().Lister().Pods(namespace),
		claims:   core.PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace),
		volumes:  core.PersistentVolumes().Lister(),
		shutdown: factory.Shutdown,
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.Pods().Informer(), core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer(),
	} {
		if _, err := informer.AddEventHandler(w.changes.Handler()); err != nil {
			return nil, err
		}
	}
	factory.Start(running.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("watch %s: %w", kind, context.Cause(ctx))
		}
	}
	return w, nil
}

// until waits until missing, which is called after each change, returns an empty string. What it
// returned last is part of the error of a timeout.
func (w *watch) until(ctx context.Context, what string, missing func() string) error {
	last := ""
	err := w.changes.Wait(ctx, waitTimeout, what, func() bool { last = missing(); return last == "" })
	if err != nil {
		return fmt.Errorf("%w: %s", err, last)
	}
	return nil
}

// available waits until the PV controller has made the volume Available.
func (w *watch) available(ctx context.Context, name string) error {
	return w.until(ctx, fmt.Sprintf("volume %s becomes Available", name), func() string {
		switch pv, err := w.volumes.Get(name); {
		case err != nil:
			return err.Error()
		case pv.Status.Phase != v1.VolumeAvailable:
			return fmt.Sprintf("it is %q", pv.Status.Phase)
		}
		return ""
	})
}

// running waits until the pod runs, and its claims and their volumes are Bound; it returns the pod.
func (w *watch) running(ctx context.Context, name string) (pod *v1.Pod, err error) {
	err = w.until(ctx, fmt.Sprintf("pod %s runs", name), func() string {
		found, err := w.pods.Get(name)
		if err != nil {
			return err.Error()
		}
		pod = found
		if pod.Status.Phase != v1.PodRunning {
			return fmt.Sprintf("it is %s; the scheduler reports: %s", pod.Status.Phase, rejection(pod))
		}
		return w.unbound(pod)
	})
	return pod, err
}

// unbound describes a claim of the pod that is not Bound, or whose volume is not; empty for none.
func (w *watch) unbound(pod *v1.Pod) string {
	for _, name := range claimsOf(pod) {
		claim, err := w.claims.Get(name)
		if err != nil {
			return err.Error()
		}
		if claim.Status.Phase != v1.ClaimBound {
			return fmt.Sprintf("claim %s is %s", name, claim.Status.Phase)
		}
		pv, err := w.volumes.Get(claim.Spec.VolumeName)
		if err != nil {
			return err.Error()
		}
		if pv.Status.Phase != v1.VolumeBound {
			return fmt.Sprintf("volume %s is %s", pv.Name, pv.Status.Phase)
		}
	}
	return ""
}

// rejected waits until the scheduler has rejected the pod for a reason, and returns the message of
// the pod's condition, which each attempt writes.
func (w *watch) rejected(ctx context.Context, name, scheduler, reason string) (message string, err error) {
	placed := ""
	err = w.until(ctx, fmt.Sprintf("%s rejects pod %s for %q", scheduler, name, reason), func() string {
		pod, err := w.pods.Get(name)
		if err != nil {
			return err.Error()
		}
		placed, message = pod.Spec.NodeName, rejection(pod)
		if placed == "" && (pod.Spec.SchedulerName != scheduler || !strings.Contains(message, reason)) {
			return fmt.Sprintf("%s reports: %s", pod.Spec.SchedulerName, message)
		}
		return ""
	})
	if err == nil && placed != "" {
		err = fmt.Errorf("%s placed pod %s on %s and was expected to reject it", scheduler, name, placed)
	}
	return message, err
}

// rejection is the message of the pod's condition PodScheduled; empty if it has none.
func rejection(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// gone waits until the pod has been deleted.
func (w *watch) gone(ctx context.Context, name string) error {
	return w.until(ctx, fmt.Sprintf("pod %s is deleted", name), func() string {
		if _, err := w.pods.Get(name); err != nil {
			return ""
		}
		return "it exists"
	})
}
