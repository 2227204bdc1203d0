// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	eventslisters "k8s.io/client-go/listers/events/v1"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/test/cluster"
)

// namespace is where the story happens.
const namespace = "default"

// patience is the deadline of each wait for what takes a fraction of a second, realPatience
// where pods are real, which takes seconds.
const (
	patience     = 30 * time.Second
	realPatience = 3 * time.Minute
)

// watch sees the objects of the story change. One goroutine at a time may wait.
type watch struct {
	pods     corelisters.PodNamespaceLister
	claims   corelisters.PersistentVolumeClaimNamespaceLister
	volumes  corelisters.PersistentVolumeLister
	events   eventslisters.EventNamespaceLister
	changed  chan struct{} // holds a signal after any change
	failed   <-chan error  // a component has ended
	patience time.Duration // with each wait
	shutdown func()        // waits for the informers after life has ended
}

// newWatch returns when everything that exists is known; ctx limits that. The
// informers end with life. l is told of every version of a volume.
func newWatch(ctx, life context.Context, c *cluster.Cluster, l *lives) (*watch, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client(), 0, informers.WithNamespace(namespace))
	core := factory.Core().V1()
	w := &watch{
		pods:     core.Pods().Lister().Pods(namespace),
		claims:   core.PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace),
		volumes:  core.PersistentVolumes().Lister(),
		events:   factory.Events().V1().Events().Lister().Events(namespace),
		changed:  make(chan struct{}, 1),
		failed:   c.Failed(),
		patience: patience,
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
		core.Pods().Informer(), core.PersistentVolumeClaims().Informer(),
		core.PersistentVolumes().Informer(), factory.Events().V1().Events().Informer(),
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

// until waits for done, which is asked after each change. Its error ends the
// wait; latest adds to the message when time is up.
func (w *watch) until(ctx context.Context, what string, done func() (bool, error), latest func() string) error {
	timeout := time.NewTimer(w.patience)
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
			return fmt.Errorf("%s: not within %s%s", what, w.patience, latest())
		}
	}
}

// limit returns a context that ends when patience does, or a component. The function
// that it returns must be called.
func (w *watch) limit(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		timeout := time.NewTimer(w.patience)
		defer timeout.Stop()
		select {
		case err := <-w.failed:
			cancel(err)
		case <-timeout.C:
			cancel(fmt.Errorf("not within %s", w.patience))
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

// allBound tells whether all claims of the pod and their volumes are Bound.
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

// refusal waits until the scheduler has refused the pod and returns its reason
// as the pod's event tells it.
func (w *watch) refusal(ctx context.Context, name, scheduler string) (string, error) {
	note := ""
	err := w.until(ctx, fmt.Sprintf("%s refuses pod %s", scheduler, name), func() (bool, error) {
		pod, err := w.pods.Get(name)
		if err != nil {
			return false, nil // not yet
		}
		if pod.Spec.NodeName != "" {
			return false, fmt.Errorf("%s placed pod %s on %s and was expected to refuse it", scheduler, name, pod.Spec.NodeName)
		}
		for _, event := range w.refusals(pod) {
			if event.ReportingController == scheduler {
				note = event.Note
			}
		}
		return note != "", nil
	}, func() string { return "" })
	return note, err
}

// gone waits until the pod has been deleted.
func (w *watch) gone(ctx context.Context, name string) error {
	return w.until(ctx, fmt.Sprintf("pod %s is deleted", name), func() (bool, error) {
		_, err := w.pods.Get(name)
		return err != nil, nil
	}, func() string { return "" })
}

// refusals are the events that say why the pod was not placed, oldest first.
func (w *watch) refusals(pod *v1.Pod) []*eventsv1.Event {
	all, _ := w.events.List(labels.Everything()) // never fails
	list := slices.DeleteFunc(all, func(e *eventsv1.Event) bool {
		return e.Regarding.UID != pod.UID || e.Reason != "FailedScheduling"
	})
	slices.SortFunc(list, func(a, b *eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return list
}

func (w *watch) latestRefusal(pod *v1.Pod) string {
	if pod == nil {
		return "; it does not exist"
	}
	if list := w.refusals(pod); len(list) > 0 {
		return "; the latest event says: " + list[len(list)-1].Note
	}
	return fmt.Sprintf("; it is %s, its claims all bound: %t", pod.Status.Phase, w.allBound(pod))
}
