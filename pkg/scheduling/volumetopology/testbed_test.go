// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"stowage.dev/stowage/pkg/testing/builders"
)

// testbed simulates the API server and its informers for plugins: objects are added to the
// informers' stores first, then delivered to the cache's handlers, which a test can
// delay. Tests call the queueing hints.
type testbed struct {
	*Plugin
	t       testing.TB
	factory informers.SharedInformerFactory
	client  *fake.Clientset
	version int
	held    bool
	queue   []func()
	// activated receives the pods that the plugin activates.
	activated chan string
}

// newTestbed creates a plugin with default arguments and the objects.
func newTestbed(t testing.TB, objects ...runtime.Object) *testbed {
	t.Helper()
	return newTestbedSynced(t, closed, objects...)
}

// newTestbedSynced is newTestbed for a cache that is synced once done is closed.
func newTestbedSynced(t testing.TB, done chan struct{}, objects ...runtime.Object) *testbed {
	t.Helper()
	w := &testbed{t: t, client: newClient(func(string) bool { return true }), activated: make(chan string, manyActivated)}
	w.factory = stoppedInformers(w.client, done)
	w.Plugin = w.plugin(nil)
	w.put(objects...)
	return w
}

// manyActivated is more pods than any test activates.
const manyActivated = 16

// newClient is a client with permission to update the status of the allowed resources.
func newClient(allowed func(resource string) bool) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = allowed(review.Spec.ResourceAttributes.Resource)
		return true, review, nil
	})
	return client
}

// plugin creates another plugin with the testbed's informers.
func (w *testbed) plugin(args runtime.Object) *Plugin {
	w.t.Helper()
	made, err := New(w.t.Context(), args, handle{client: w.client, factory: w.factory, activate: func(pod string) {
		w.activated <- pod
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return made.(*Plugin)
}

// handle is the part of the framework that a plugin uses.
type handle struct {
	fwk.Handle
	client   kubernetes.Interface
	factory  informers.SharedInformerFactory
	activate func(pod string)
}

func (h handle) ClientSet() kubernetes.Interface                        { return h.client }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (handle) ProfileName() string                                      { return "profile" }

func (h handle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	for _, pod := range slices.Sorted(maps.Keys(pods)) {
		h.activate(pod)
	}
}

// stoppedInformers is a factory whose informers list and watch nothing, for the kinds
// that a cache observes. They are synced once done is closed.
func stoppedInformers(client kubernetes.Interface, done chan struct{}) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, kind := range []runtime.Object{
		&v1.Node{}, &v1.Pod{}, &v1.PersistentVolume{}, &v1.PersistentVolumeClaim{},
		&storagev1.StorageClass{}, &storagev1.CSIStorageCapacity{}, &storagev1.CSIDriver{}, &storagev1.CSINode{},
	} {
		factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
			return &informer{SharedIndexInformer: cache.NewSharedIndexInformer(nil, kind, 0, byNamespace), done: done}
		})
	}
	return factory
}

// informer keeps handlers for the test to call.
type informer struct {
	cache.SharedIndexInformer
	done     chan struct{}
	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
}

func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(i.handlers, h)
	return synced{done: i.done}, nil
}

// HasSynced is of the store, which is filled before the cache starts.
func (*informer) HasSynced() bool { return true }

// synced reports whether all initial objects have been delivered.
type synced struct {
	cache.ResourceEventHandlerRegistration
	done chan struct{}
}

func (s synced) HasSynced() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (w *testbed) informer(object runtime.Object) *informer {
	w.t.Helper()
	found, ok := w.factory.InformerFor(object, nil).(*informer)
	if !ok {
		w.t.Fatalf("no informer for %T", object)
	}
	return found
}

// put creates or updates objects. Copies of them are stored, each with a new
// resource version.
func (w *testbed) put(objects ...runtime.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.version++
		object = object.DeepCopyObject()
		object.(interface{ SetResourceVersion(string) }).SetResourceVersion(strconv.Itoa(w.version))
		i := w.informer(object)
		old, existed, err := i.GetStore().Get(object)
		if err == nil {
			err = i.GetStore().Update(object)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		w.deliver(i, func(h cache.ResourceEventHandler) {
			if existed {
				h.OnUpdate(old, object)
			} else {
				h.OnAdd(object, false)
			}
		})
	}
}

// remove deletes objects.
func (w *testbed) remove(objects ...runtime.Object) {
	w.t.Helper()
	for _, object := range objects {
		i, last := w.informer(object), w.stored(object)
		if err := i.GetStore().Delete(object); err != nil {
			w.t.Fatal(err)
		}
		w.deliver(i, func(h cache.ResourceEventHandler) { h.OnDelete(last) })
	}
}

// stored returns the object of this kind and name in the informer's store; nil for nil.
func (w *testbed) stored(object runtime.Object) runtime.Object {
	w.t.Helper()
	if object == nil {
		return nil
	}
	found, exists, err := w.informer(object).GetStore().Get(object)
	if err != nil || !exists {
		w.t.Fatalf("no %T in the store, error %v", object, err)
	}
	return found.(runtime.Object)
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

func (w *testbed) deliver(i *informer, event func(cache.ResourceEventHandler)) {
	deliver := func() {
		for _, h := range i.handlers {
			event(h)
		}
	}
	if w.held {
		w.queue = append(w.queue, deliver)
		return
	}
	deliver()
}

// check verifies the cache's invariants.
func (w *testbed) check() {
	w.t.Helper()
	if err := w.cache.Check(); err != nil {
		w.t.Errorf("the cache's invariants are violated: %v", err)
	}
}

// cycle is one scheduling cycle of a pod.
type cycle struct {
	*testbed
	state fwk.CycleState
	pod   *v1.Pod
}

// begin runs PreFilter, which must succeed or skip.
func (w *testbed) begin(pod *v1.Pod) *cycle {
	w.t.Helper()
	c := &cycle{testbed: w, state: framework.NewCycleState(), pod: pod}
	if _, status := w.PreFilter(w.t.Context(), c.state, pod, nil); !status.IsSuccess() && !status.IsSkip() {
		w.t.Fatalf("PreFilter of pod %s: %v", pod.Name, status)
	}
	return c
}

// info returns the informer's node, with pods on it.
func (w *testbed) info(node string, pods ...*v1.Pod) fwk.NodeInfo {
	w.t.Helper()
	object, err := w.factory.Core().V1().Nodes().Lister().Get(node)
	if err != nil {
		w.t.Fatal(err)
	}
	info := framework.NewNodeInfo(pods...)
	info.SetNode(object)
	return info
}

func (c *cycle) filter(node string, pods ...*v1.Pod) *fwk.Status {
	c.t.Helper()
	return c.Filter(c.t.Context(), c.state, c.pod, c.info(node, pods...))
}

func (c *cycle) reserve(node string) *fwk.Status {
	c.t.Helper()
	status := c.Reserve(c.t.Context(), c.state, c.pod, node)
	c.check()
	return status
}

func (c *cycle) unreserve(node string) {
	c.t.Helper()
	c.Unreserve(c.t.Context(), c.state, c.pod, node)
	c.check()
}

// planned is what Reserve decided: volumes by claim, "(provision)" for claims to
// provision; nil if nothing is to be written.
func (c *cycle) planned() map[string]string {
	c.t.Helper()
	s, err := stateOf(c.state)
	if err != nil {
		c.t.Fatal(err)
	}
	if s.plan == nil {
		return nil
	}
	planned := map[string]string{}
	for _, b := range s.plan.Bindings {
		planned[b.Claim.Name] = b.Volume.Name
	}
	for _, made := range s.plan.Provisions {
		planned[made.Claim.Name] = "(provision)"
	}
	return planned
}

// Objects of the tests. Classes are local (volumes made by hand) and csi (provisioned by
// the driver csi.example.com).

const driver = "csi.example.com"

func localClass() *builders.Class { return builders.MakeClass("local") }

func csiClass() *builders.Class { return builders.MakeClass("csi").Provisioner(driver) }

func csiDriver(tracked bool) *storagev1.CSIDriver {
	return builders.MakeCSIDriver(driver).StorageCapacity(tracked).Obj()
}

func node(name string) *builders.Node { return builders.MakeNode(name).UID("node-" + name) }

func volume(name, node, size string) *builders.PV {
	return builders.MakePV(name).UID("pv-" + name).Class("local").Capacity(size).Hostname(node)
}

func claim(name, size string) *builders.PVC {
	return builders.MakePVC(name).UID("pvc-" + name).Class("local").Request(size)
}

func pod(name string, claims ...string) *v1.Pod {
	return builders.MakePod(name).UID("pod-" + name).PVC(claims...).Obj()
}

func capacity(name, node, size string) *builders.Capacity {
	return builders.MakeCapacity(name, "csi").UID("capacity-" + name).Hostname(node).Capacity(size)
}

// sizeOnly has only the maximum size of volumes, no capacity.
func sizeOnly(name, size string) *storagev1.CSIStorageCapacity {
	return builders.MakeCapacity(name, "csi").UID("capacity-" + name).Hostname(name).Max(size).Obj()
}

// betaOnly is a claim for 1Gi with its class only in the annotation.
func betaOnly(name, class string) *v1.PersistentVolumeClaim {
	return builders.MakePVC(name).UID("pvc-" + name).BetaClass(class).Obj()
}
