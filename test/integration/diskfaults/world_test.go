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

// world is a node, the disks that tenants use, and what was found wrong.
type world struct {
	*node.Node
	disks []*tenant

	group sync.WaitGroup

	mu      sync.Mutex
	closing bool // nobody claims any more
	kills   int
	wrong   []string
	broken  chan struct{} // closed with the first that is wrong
	diary   []string
	tornOff map[types.UID]bool // volumes whose finalizers the administrator took off
	deleted map[types.UID]bool // volumes that the administrator asked to go
}

func newWorld(n *node.Node) *world {
	return &world{Node: n, broken: make(chan struct{}), tornOff: map[types.UID]bool{}, deleted: map[types.UID]bool{}}
}

// add gives a tenant a disk, at one path or more.
func (w *world) add(m medium, seed uint64, paths ...string) {
	w.disks = append(w.disks, newTenant(w, m, seed, paths))
}

// watch has every tenant told of the volumes of its disk, in the order in which the
// API server has them, until the test ends.
func (w *world) watch() {
	t := w.Env.T
	factory := informers.NewSharedInformerFactory(w.Env.Client, 0)
	informer := factory.Core().V1().PersistentVolumes().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.told(o, false) },
		UpdateFunc: func(_, o any) { w.told(o, false) },
		DeleteFunc: func(o any) { w.told(o, true) },
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

func (w *world) told(object any, gone bool) {
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

// every tells all tenants that something has happened besides.
func (w *world) every() {
	for _, d := range w.disks {
		d.news.add(news{})
	}
}

// violated takes down that something must not be so.
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

// torn says whether the administrator has taken finalizers off a volume.
func (w *world) torn(volume types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tornOff[volume]
}

// let says whether the administrator asked a volume to go, which it may do before a
// claim that is on its way is bound.
func (w *world) let(volume types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted[volume]
}

// queue is what a tenant has yet to hear. It is never full.
type queue struct {
	mu     sync.Mutex
	ready  *sync.Cond
	list   []news
	closed bool
}

// news is of a volume, or that the provisioner was killed if there is none.
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
