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

// world is a node, the disks that tenants use, and the violations found.
type world struct {
	*node.Node
	disks []*tenant

	group sync.WaitGroup

	mu      sync.Mutex
	closing bool // tenants stop claiming
	kills   int
	wrong   []string
	broken  chan struct{} // closed with the first that is wrong
	diary   []string
	tornOff map[types.UID]bool // volumes whose finalizers the administrator removed
	deleted map[types.UID]bool // volumes that the administrator deleted
}

func newWorld(n *node.Node) *world {
	return &world{Node: n, broken: make(chan struct{}), tornOff: map[types.UID]bool{}, deleted: map[types.UID]bool{}}
}

// add gives a tenant a disk, at one path or more.
func (w *world) add(m medium, seed uint64, paths ...string) {
	w.disks = append(w.disks, newTenant(w, m, seed, paths))
}

// watch sends every tenant the events of the volumes of its disk, in the API server's order,
// until the test ends.
func (w *world) watch() {
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
			d.news.close()
		}
		w.group.Wait()
	})
	for _, d := range w.disks {
		w.group.Go(func() { d.live(ctx) })
	}
	factory.Start(ctx.Done())
}

func (w *world) handle(object any, gone bool) {
	if deleted, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = deleted.Obj
	}
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || volume.Spec.Local == nil {
		return
	}
	for _, d := range w.disks {
		if d.has(localpv.PathOf(volume)) {
			d.news.add(news{volume: volume, gone: gone})
		}
	}
}

// every sends all tenants an event that is not of a volume.
func (w *world) every() {
	for _, d := range w.disks {
		d.news.add(news{})
	}
}

// violated records a violation.
func (w *world) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) == 0 {
		close(w.broken)
	}
	w.wrong = append(w.wrong, fmt.Sprintf("after %d kills: ", w.kills)+fmt.Sprintf(format, args...))
}

// note writes into the diary.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diary = append(w.diary, fmt.Sprintf(format, args...))
}

// verdict fails the test if anything is wrong.
func (w *world) verdict() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		w.Env.T.Errorf("%s\n\nwhat happened before:\n%s", strings.Join(w.wrong, "\n"), strings.Join(w.diary[max(0, len(w.diary)-80):], "\n"))
	}
}

// torn reports whether the administrator has removed the finalizers of a volume.
func (w *world) torn(volume types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tornOff[volume]
}

// let reports whether the administrator deleted a volume, which it may do before a
// concurrent claim is bound.
func (w *world) let(volume types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted[volume]
}

// queue has the events that a tenant has not handled yet. It is never full.
type queue struct {
	mu     sync.Mutex
	ready  *sync.Cond
	list   []news
	closed bool
}

// news is an event of a volume, or, without one, a kill of the provisioner.
type news struct {
	volume *corev1.PersistentVolume
	gone   bool
}

func newQueue() *queue {
	q := &queue{}
	q.ready = sync.NewCond(&q.mu)
	return q
}

func (q *queue) add(n news) {
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
func (q *queue) next() (news, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) == 0 && !q.closed {
		q.ready.Wait()
	}
	if q.closed {
		return news{}, false
	}
	n := q.list[0]
	q.list = q.list[1:]
	return n, true
}
