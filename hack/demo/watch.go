// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
)

// namespace is where the demo happens.
const namespace = "default"

// waitTimeout is the deadline of each wait; what is waited for takes a fraction of a second.
var waitTimeout = deadline.Wait() / 2

// watch sees the objects of the demo change. One goroutine at a time may wait.
type watch struct {
	pods     corelisters.PodNamespaceLister
	claims   corelisters.PersistentVolumeClaimNamespaceLister
	volumes  corelisters.PersistentVolumeLister
	changed  chan struct{} // holds a signal after any change
	failed   <-chan error  // a component has ended
	shutdown func()        // waits for the informers after life has ended
}

// newWatch returns when everything that exists is known; ctx limits that. The
// informers end with life. l gets every version of a volume.
func newWatch(ctx, life context.Context, c *cluster.Cluster, l *lives) (*watch, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client(), 0, informers.WithNamespace(namespace))
	core := factory.Core().V1()
	w := &watch{
		pods:     core.Pods().Lister().Pods(namespace),
		claims:   core.PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace),
		volumes:  core.PersistentVolumes().Lister(),
		changed:  make(chan struct{}, 1),
		failed:   c.Failed(),
		shutdown: factory.Shutdown,
	}
	signal := func(object any) {
		l.saw(object)
		select {
		case w.changed <- struct{}{}:
		default: // one signal stands for any number of changes
		}
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.Pods().Informer(), core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer(),
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: signal, UpdateFunc: func(_, now any) { signal(now) }, DeleteFunc: signal,
		}); err != nil {
			return nil, err
		}
	}
	factory.Start(life.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("watch %s: %w", kind, context.Cause(ctx))
		}
	}
	return w, nil
}

// until waits for done, which is called after each change. Its error ends the
// wait; latest adds to the error of a timeout.
func (w *watch) until(ctx context.Context, what string, done func() (bool, error), latest func() string) error {
	timeout := time.NewTimer(waitTimeout)
	defer timeout.Stop()
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		select {
		case <-w.changed:
		case err := <-w.failed:
			return err
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-timeout.C:
			return fmt.Errorf("%s: not within %s%s", what, waitTimeout, latest())
		}
	}
}

// limit returns a context that ends after waitTimeout, or when a component fails. The returned
// function must be called.
func (w *watch) limit(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		timeout := time.NewTimer(waitTimeout)
		defer timeout.Stop()
		select {
		case err := <-w.failed:
			cancel(err)
		case <-timeout.C:
			cancel(fmt.Errorf("not within %s", waitTimeout))
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		group.Wait()
	}
}

// available waits until the PV controller has made the volume Available.
func (w *watch) available(ctx context.Context, name string) error {
	phase := v1.PersistentVolumePhase("unknown")
	return w.until(ctx, fmt.Sprintf("volume %s becomes Available", name), func() (bool, error) {
		pv, err := w.volumes.Get(name)
		if err == nil {
			phase = pv.Status.Phase
		}
		return phase == v1.VolumeAvailable, nil
	}, func() string { return fmt.Sprintf("; it is %s", phase) })
}

// running waits until the pod has been placed and runs, and until the statuses of
// its claims and volumes say that they are bound; it returns the pod.
func (w *watch) running(ctx context.Context, name string) (*v1.Pod, error) {
	var pod *v1.Pod
	err := w.until(ctx, fmt.Sprintf("pod %s runs", name), func() (bool, error) {
		found, err := w.pods.Get(name)
		if err != nil {
			return false, nil // not yet
		}
		pod = found
		return pod.Status.Phase == v1.PodRunning && w.allBound(pod), nil
	}, func() string { return w.latestRefusal(pod) })
	return pod, err
}

// allBound reports whether all claims of the pod and their volumes are Bound.
func (w *watch) allBound(pod *v1.Pod) bool {
	for _, name := range claimsOf(pod) {
		claim, err := w.claims.Get(name)
		if err != nil || claim.Status.Phase != v1.ClaimBound {
			return false
		}
		pv, err := w.volumes.Get(claim.Spec.VolumeName)
		if err != nil || pv.Status.Phase != v1.VolumeBound {
			return false
		}
	}
	return true
}

// refusal waits until the scheduler has rejected the pod for a reason, and returns the message of
// the pod's condition, which each attempt writes.
func (w *watch) refusal(ctx context.Context, name, scheduler, reason string) (string, error) {
	message := ""
	err := w.until(ctx, fmt.Sprintf("%s refuses pod %s", scheduler, name), func() (bool, error) {
		pod, err := w.pods.Get(name)
		if err != nil {
			return false, nil // not yet
		}
		if pod.Spec.NodeName != "" {
			return false, fmt.Errorf("%s placed pod %s on %s and was expected to refuse it", scheduler, name, pod.Spec.NodeName)
		}
		message = refusalOf(pod)
		return pod.Spec.SchedulerName == scheduler && strings.Contains(message, reason), nil
	}, func() string { return fmt.Sprintf(" for %q; it reports: %s", reason, message) })
	return message, err
}

// gone waits until the pod has been deleted.
func (w *watch) gone(ctx context.Context, name string) error {
	return w.until(ctx, fmt.Sprintf("pod %s is deleted", name), func() (bool, error) {
		_, err := w.pods.Get(name)
		return err != nil, nil
	}, func() string { return "" })
}

// refusalOf is the message of the pod's condition PodScheduled; empty if it has none.
func refusalOf(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

func (w *watch) latestRefusal(pod *v1.Pod) string {
	if pod == nil {
		return "; it does not exist"
	}
	if message := refusalOf(pod); message != "" {
		return "; the scheduler reports: " + message
	}
	return fmt.Sprintf("; it is %s, its claims all bound: %t", pod.Status.Phase, w.allBound(pod))
}
