// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	clocktesting "k8s.io/utils/clock/testing"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/deadline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testbed is an extender with the informers of a client that keeps objects in memory.
type testbed struct {
	*Extender
	t       testing.TB
	client  *fake.Clientset
	clock   *clocktesting.FakePassiveClock
	handler http.Handler
	version atomic.Int64
	writing sync.Mutex
	// changed has an element if volumes or claims were delivered since the last receive.
	changed   chan struct{}
	informers informers.SharedInformerFactory
	volumes   cache.SharedIndexInformer
	claims    cache.SharedIndexInformer
}

const (
	testVerb = 5 * time.Second
	testHold = time.Minute
	testBody = 1 << 20
)

func newTestbed(t testing.TB, mode extender.Mode, objects ...runtime.Object) *testbed {
	t.Helper()
	w := &testbed{t: t, clock: clocktesting.NewFakePassiveClock(time.Now()), changed: make(chan struct{}, 1)}
	for i, object := range objects {
		objects[i] = w.stamped(object)
	}
	w.client = fake.NewClientset(objects...)
	for _, verb := range []string{"create", "update"} {
		w.client.PrependReactor(verb, "persistentvolumes", w.write)
		w.client.PrependReactor(verb, "persistentvolumeclaims", w.write)
	}
	w.client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = true
		return true, review, nil
	})
	w.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateAction)
		if create.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := create.GetObject().(*v1.Binding)
		pods := v1.SchemeGroupVersion.WithResource("pods")
		live, err := w.client.Tracker().Get(pods, binding.Namespace, binding.Name)
		if err == nil {
			pod := w.stamped(live).(*v1.Pod)
			pod.Spec.NodeName = binding.Target.Name
			err = w.client.Tracker().Update(pods, pod, pod.Namespace)
		}
		return true, binding, err
	})
	factory := informers.NewSharedInformerFactory(w.client, 0)
	made, err := New(t.Context(), Config{Client: w.client, Informers: factory, Clock: w.clock, Settings: &extender.ExtenderConfiguration{
		Mode:        mode,
		Serving:     extender.Serving{MaxBodyBytes: new(int64(testBody))},
		Timeouts:    extender.Timeouts{Verb: metav1.Duration{Duration: testVerb}, Hold: metav1.Duration{Duration: testHold}},
		BindingMode: configv1.BindingModeDirect,
		Scoring:     configv1.VolumeScoring{Strategy: configv1.ScoringBestFit, StaticWeightPercent: new(int32(50))},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.Extender, w.handler, w.informers = made, made.Handler(), factory
	w.volumes, w.claims = factory.Core().V1().PersistentVolumes().Informer(), factory.Core().V1().PersistentVolumeClaims().Informer()
	w.follow(w.volumes)
	w.follow(w.claims)
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() {
		w.Wait()
		close(stop)
		factory.Shutdown()
	})
	if !w.cache.Ready(t.Context().Done()) {
		t.Fatal("the cache did not become ready")
	}
	return w
}

// stamped returns the object with a new resourceVersion, which client-go's tracker does
// not set.
func (w *testbed) stamped(object runtime.Object) runtime.Object {
	object = object.DeepCopyObject()
	object.(metav1.Object).SetResourceVersion(strconv.FormatInt(w.version.Add(1), 10))
	return object
}

// write creates or updates an object with optimistic locking, as the API server does.
func (w *testbed) write(action clienttesting.Action) (bool, runtime.Object, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	resource, namespace := action.GetResource(), action.GetNamespace()
	given := action.(clienttesting.CreateAction).GetObject() // an UpdateAction has it too
	if action.GetVerb() == "create" {
		object := w.stamped(given)
		return true, object, w.client.Tracker().Create(resource, object, namespace)
	}
	meta := given.(metav1.Object)
	live, err := w.client.Tracker().Get(resource, namespace, meta.GetName())
	if err != nil {
		return true, nil, err
	}
	if live.(metav1.Object).GetResourceVersion() != meta.GetResourceVersion() {
		return true, nil, apierrors.NewConflict(resource.GroupResource(), meta.GetName(), errors.New("it has changed"))
	}
	object := w.stamped(given)
	return true, object, w.client.Tracker().Update(resource, object, namespace)
}

// post calls a verb with any body.
func (w *testbed) post(verb string, body []byte) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/"+verb, bytes.NewReader(body)))
	return answer
}

// ask calls a verb and decodes its answer.
func ask[Result any](w *testbed, verb string, args any) Result {
	w.t.Helper()
	body, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, result := w.post(verb, body), *new(Result)
	if answer.Code != http.StatusOK {
		w.t.Fatalf("%s: status %d: %s", verb, answer.Code, answer.Body)
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &result); err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *testbed) filterNames(pod *v1.Pod, nodes ...string) extenderv1.ExtenderFilterResult {
	w.t.Helper()
	return ask[extenderv1.ExtenderFilterResult](w, VerbFilter, extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes})
}

// bindTo returns the error that a bind answers.
func (w *testbed) bindTo(pod *v1.Pod, node string) string {
	w.t.Helper()
	result := ask[extenderv1.ExtenderBindingResult](w, VerbBind, bindArgs(pod, node))
	if err := w.cache.Check(); err != nil {
		w.t.Error(err)
	}
	return result.Error
}

// wantIdle checks that calls leave no pin or reservation, after binds that outlived their
// calls have ended.
func (w *testbed) wantIdle(t testing.TB) {
	t.Helper()
	w.Wait()
	if err := errors.Join(w.cache.Check(), w.cache.CheckIdle()); err != nil {
		t.Error(err)
	}
	w.pins.mu.Lock()
	for uid, node := range w.pins.binding {
		t.Errorf("pod %q is still being bound to node %q", uid, node)
	}
	w.pins.mu.Unlock()
	w.gate.wantIdle(t)
}

func bindArgs(pod *v1.Pod, node string) extenderv1.ExtenderBindingArgs {
	return extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}
}

// on returns the pod's node in the API server.
func (w *testbed) on(pod *v1.Pod) string {
	w.t.Helper()
	live, err := w.client.CoreV1().Pods(pod.Namespace).Get(w.t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return live.Spec.NodeName
}

func (w *testbed) claim(name string) *v1.PersistentVolumeClaim {
	w.t.Helper()
	live, err := w.client.CoreV1().PersistentVolumeClaims("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return live.DeepCopy()
}

// follow sends to changed when the informer delivers an object.
func (w *testbed) follow(informer cache.SharedIndexInformer) {
	w.t.Helper()
	signal := func(any) {
		select {
		case w.changed <- struct{}{}:
		default: // already signalled
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: signal, UpdateFunc: func(_, object any) { signal(object) }}
	if _, err := informer.AddEventHandler(handler); err != nil {
		w.t.Fatal(err)
	}
}

// catchUp updates the cache from the informers' stores: its own handlers may run after
// those of follow.
func (w *testbed) catchUp() {
	for _, object := range w.volumes.GetStore().List() {
		w.cache.ObserveVolume(object.(*v1.PersistentVolume).Name)
	}
	for _, object := range w.claims.GetStore().List() {
		w.cache.ApplyClaim(object.(*v1.PersistentVolumeClaim))
	}
}

// eventually waits until events of volumes and claims make the condition true.
func (w *testbed) eventually(what string, is func() bool) {
	w.t.Helper()
	giveUp := time.After(deadline.Wait())
	for w.catchUp(); !is(); w.catchUp() {
		select {
		case <-w.changed:
		case <-giveUp:
			w.t.Fatalf("timed out waiting for %s", what)
		}
	}
}

const testDriver = "csi.example.com"

func localClass() runtime.Object { return builders.MakeClass("local").Obj() }
func csiClass() runtime.Object   { return builders.MakeClass("csi").Provisioner(testDriver).Obj() }
func csiDriver() *storagev1.CSIDriver {
	return builders.MakeCSIDriver(testDriver).StorageCapacity(true).Obj()
}
func node(name string) *v1.Node { return builders.MakeNode(name).UID("node-" + name).Obj() }
func volume(name, node, size string) *builders.PV {
	return builders.MakePV(name).UID("pv-" + name).Class("local").Capacity(size).Hostname(node).Phase(v1.VolumeAvailable)
}
func claim(name, size string) *builders.PVC {
	return builders.MakePVC(name).Namespace("default").UID("pvc-" + name).Class("local").Request(size)
}
func pod(name string, claims ...string) *v1.Pod {
	return builders.MakePod(name).Namespace("default").UID("pod-" + name).PVC(claims...).Obj()
}
func capacity(node, size string) runtime.Object {
	return builders.MakeCapacity("capacity-"+node, "csi").Namespace("default").UID("capacity-" + node).Hostname(node).Capacity(size).Obj()
}
