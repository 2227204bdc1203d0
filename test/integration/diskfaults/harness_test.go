// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskfaults_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/integration/node"
)

// harness is a node, the disks that tenants use, and the violations found.
type harness struct {
	*node.Node
	disks []*tenant

	group sync.WaitGroup

	mu       sync.Mutex
	closing  bool // tenants stop claiming
	kills    int
	wrong    []string
	broken   chan struct{} // closed with the first that is wrong
	history  []string
	stripped map[types.UID]bool // volumes whose finalizers the administrator removed
	deleted  map[types.UID]bool // volumes that the administrator deleted
}

func newHarness(n *node.Node) *harness {
	return &harness{Node: n, broken: make(chan struct{}), stripped: map[types.UID]bool{}, deleted: map[types.UID]bool{}}
}

// add gives a tenant a disk, at one path or more.
func (w *harness) add(m medium, seed uint64, paths ...string) {
	w.disks = append(w.disks, newTenant(w, m, seed, paths))
}

// watch sends every tenant the events of the volumes of its disk, in the API server's order,
// until the test ends.
func (w *harness) watch() {
	t := w.Env.T
	factory := informers.NewSharedInformerFactory(w.Env.Client, 0)
	informer := factory.Core().V1().PersistentVolumes().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.handle(o, false) },
		UpdateFunc: func(_, o any) { w.handle(o, false) },
		DeleteFunc: func(o any) { w.handle(o, true) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
		for _, d := range w.disks {
			d.events.close()
		}
		w.group.Wait()
	})
	for _, d := range w.disks {
		w.group.Go(func() { d.live(ctx) })
	}
	factory.Start(ctx.Done())
}

func (w *harness) handle(object any, gone bool) {
	if deleted, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = deleted.Obj
	}
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || volume.Spec.Local == nil {
		return
	}
	for _, d := range w.disks {
		if d.has(localpv.PathOf(volume)) {
			d.events.add(event{volume: volume, gone: gone})
		}
	}
}

// notifyAll sends all tenants an event that is not of a volume.
func (w *harness) notifyAll() {
	for _, d := range w.disks {
		d.events.add(event{})
	}
}

// violated records a violation.
func (w *harness) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) == 0 {
		close(w.broken)
	}
	w.wrong = append(w.wrong, fmt.Sprintf("after %d kills: ", w.kills)+fmt.Sprintf(format, args...))
}

// logf writes into the history.
func (w *harness) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// report fails the test if anything is wrong.
func (w *harness) report() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		w.Env.T.Errorf("%s\n\nwhat happened before:\n%s", strings.Join(w.wrong, "\n"), strings.Join(w.history[max(0, len(w.history)-80):], "\n"))
	}
}

// isStripped reports whether the administrator has removed the finalizers of a volume.
func (w *harness) isStripped(volume types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stripped[volume]
}

// isDeleted reports whether the administrator deleted a volume, which it may do before a
// concurrent claim is bound.
func (w *harness) isDeleted(volume types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted[volume]
}

// queue has the events that a tenant has not handled yet. It is never full.
type queue struct {
	mu     sync.Mutex
	ready  *sync.Cond
	list   []event
	closed bool
}

// event is an event of a volume, or, without one, a kill of the provisioner.
type event struct {
	volume *corev1.PersistentVolume
	gone   bool
}

func newQueue() *queue {
	q := &queue{}
	q.ready = sync.NewCond(&q.mu)
	return q
}

func (q *queue) add(n event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, n)
	q.ready.Signal()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Signal()
}

// next waits; false at the end.
func (q *queue) next() (event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 && !q.closed {
		q.ready.Wait()
	}
	if q.closed {
		return event{}, false
	}
	n := q.list[0]
	q.list = q.list[1:]
	return n, true
}
