// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumecache

import (
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"stowage.dev/stowage/pkg/scheduling/match"
	"stowage.dev/stowage/pkg/testing/builders"
)

// testbed simulates the API server and its informers for one volume cache: objects are
// added to the informers' stores first, then passed to the cache's handlers, which a test
// can delay.
type testbed struct {
	*Cache
	t       testing.TB
	factory informers.SharedInformerFactory
	clock   *clocktesting.FakePassiveClock
	version int
	held    bool
	queue   []func()
}

func newTestbed(t testing.TB, objects ...runtime.Object) *testbed {
	t.Helper()
	w := &testbed{
		t:       t,
		factory: informers.NewSharedInformerFactory(fake.NewClientset(), 0),
		clock:   clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0)),
	}
	var err error
	if w.Cache, err = New(Config{Informers: w.factory, Clock: w.clock}); err != nil {
		t.Fatal(err)
	}
	w.reserved.listing = false
	w.put(objects...)
	return w
}

// store is the informer's store for the kind of object, and the cache's
// handlers for it.
func (w *testbed) store(object runtime.Object) (store cache.Store, seen, gone func()) {
	core, storage := w.factory.Core().V1(), w.factory.Storage().V1()
	switch o := object.(type) {
	case *v1.Node:
		return core.Nodes().Informer().GetStore(), func() { w.nodeUpdated(o) }, func() { w.nodeDeleted(o) }
	case *v1.PersistentVolume:
		return core.PersistentVolumes().Informer().GetStore(), func() { w.ApplyVolume(o) }, func() { w.volumeDeleted(o) }
	case *v1.PersistentVolumeClaim:
		return core.PersistentVolumeClaims().Informer().GetStore(), func() { w.claimUpdated(o) }, func() { w.claimDeleted(o) }
	case *v1.Pod:
		return core.Pods().Informer().GetStore(), func() { w.podUpdated(o) }, func() { w.podDeleted(o) }
	case *storagev1.StorageClass:
		return storage.StorageClasses().Informer().GetStore(), func() {}, func() { w.classDeleted(o) }
	case *storagev1.CSIStorageCapacity:
		return storage.CSIStorageCapacities().Informer().GetStore(), func() { w.capacityUpdated(o) }, func() { w.capacityDeleted(o) }
	case *storagev1.CSIDriver:
		return storage.CSIDrivers().Informer().GetStore(), func() {}, func() {}
	case *storagev1.CSINode:
		return storage.CSINodes().Informer().GetStore(), func() {}, func() {}
	}
	w.t.Fatalf("no store for %T", object)
	return nil, nil, nil
}

// put creates or updates objects.
func (w *testbed) put(objects ...runtime.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.version++
		object.(interface{ SetResourceVersion(string) }).SetResourceVersion(strconv.Itoa(w.version))
		store, seen, _ := w.store(object)
		if err := store.Update(object); err != nil {
			w.t.Fatal(err)
		}
		w.deliver(seen)
	}
}

// remove deletes objects.
func (w *testbed) remove(objects ...runtime.Object) {
	w.t.Helper()
	for _, object := range objects {
		store, _, gone := w.store(object)
		if err := store.Delete(object); err != nil {
			w.t.Fatal(err)
		}
		w.deliver(gone)
	}
}

// hold delays events to the cache's handlers until release.
func (w *testbed) hold() { w.held = true }

func (w *testbed) release() {
	w.held = false
	for _, event := range w.queue {
		event()
	}
	w.queue = nil
}

// late creates or updates an object whose event reaches the cache's handlers when the
// function that it returns is called.
func (w *testbed) late(object runtime.Object) (deliver func()) {
	w.t.Helper()
	w.hold()
	w.put(object)
	events := w.queue
	w.held, w.queue = false, nil
	return events[0]
}

func (w *testbed) deliver(event func()) {
	if w.held {
		w.queue = append(w.queue, event)
		return
	}
	event()
}

func (w *testbed) demand(pod *v1.Pod) *Demand {
	w.t.Helper()
	d, refusal, err := w.Demand(pod)
	if refusal != nil || err != nil {
		w.t.Fatalf("Demand of pod %s: refusal %v, error %v", pod.Name, refusal, err)
	}
	return d
}

// fits evaluates the pod for the node in the store, as a scheduling cycle does.
func (w *testbed) fits(pod *v1.Pod, node string) match.ReasonCode {
	w.t.Helper()
	object, err := w.factory.Core().V1().Nodes().Lister().Get(node)
	if err != nil {
		w.t.Fatal(err)
	}
	d := w.demand(pod)
	w.Withhold(d)
	return w.Fits(d, object).Code
}

// reserve reserves and returns the volumes by claim, "(provision)" for claims
// to provision; nil if the pod does not fit.
func (w *testbed) reserve(pod *v1.Pod, node string) map[string]string {
	w.t.Helper()
	return w.reserveFor(w.demand(pod), node)
}

func (w *testbed) reserveFor(d *Demand, node string) map[string]string {
	w.t.Helper()
	p, reason := w.Reserve(d, node)
	w.check()
	if reason.Code != match.Fits {
		return nil
	}
	got := map[string]string{}
	for _, b := range p.Bindings {
		got[b.Claim.Name] = b.Volume.Name
	}
	for _, made := range p.Provisions {
		got[made.Claim.Name] = "(provision)"
	}
	return got
}

func (w *testbed) check() {
	w.t.Helper()
	if err := w.Check(); err != nil {
		w.t.Fatalf("invariants broken: %v", err)
	}
}

func (w *testbed) claim(name string) *v1.PersistentVolumeClaim {
	w.t.Helper()
	claim := w.Claim("default", name)
	if claim == nil {
		w.t.Fatalf("no claim %q", name)
	}
	return claim.DeepCopy()
}

func wffc(class string) *storagev1.StorageClass {
	return builders.MakeClass(class).BindingMode(storagev1.VolumeBindingWaitForFirstConsumer).
		Provisioner("kubernetes.io/no-provisioner").Obj()
}

func dynamic(class, driver string) *storagev1.StorageClass {
	return builders.MakeClass(class).BindingMode(storagev1.VolumeBindingWaitForFirstConsumer).Provisioner(driver).Obj()
}

func tracked(driver string) *storagev1.CSIDriver {
	return builders.MakeCSIDriver(driver).StorageCapacity(true).Obj()
}

func node(name string) *v1.Node {
	return builders.MakeNode(name).Hostname(name).UID("node-" + name).Obj()
}

func localPV(name, node, size string) *builders.PV {
	return builders.MakePV(name).UID("pv-" + name).Class("local").Capacity(size).Hostname(node).
		AccessModes(v1.ReadWriteOnce).Phase(v1.VolumeAvailable)
}

func pvc(name, size string) *builders.PVC {
	return builders.MakePVC(name).Namespace("default").UID("pvc-" + name).Class("local").Request(size).
		AccessModes(v1.ReadWriteOnce)
}

func pod(name string, claims ...string) *v1.Pod {
	return builders.MakePod(name).Namespace("default").UID("pod-" + name).PVC(claims...).Obj()
}
