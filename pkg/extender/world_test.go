// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"stowage.dev/stowage/pkg/apis/config"
	"stowage.dev/stowage/pkg/apis/extender"
	"stowage.dev/stowage/pkg/testing/builders"
)

// world is an extender on informers of a client that keeps objects in memory.
type world struct {
	*Extender
	t       testing.TB
	client  *fake.Clientset
	clock   *clocktesting.FakePassiveClock
	handler http.Handler
}

const (
	testVerb = 5 * time.Second
	testHold = time.Minute
	testBody = 64 << 10
)

func newWorld(t testing.TB, mode extender.Mode, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, client: fake.NewClientset(objects...), clock: clocktesting.NewFakePassiveClock(time.Now())}
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
		pod, err := w.client.CoreV1().Pods(binding.Namespace).Get(t.Context(), binding.Name, metav1.GetOptions{})
		if err == nil {
			pod = pod.DeepCopy()
			pod.Spec.NodeName = binding.Target.Name
			err = w.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)
		}
		return true, binding, err
	})
	factory := informers.NewSharedInformerFactory(w.client, 0)
	made, err := New(t.Context(), Config{Client: w.client, Informers: factory, Clock: w.clock, Settings: &extender.ExtenderConfiguration{
		Mode:        mode,
		Serving:     extender.Serving{MaxBodyBytes: testBody},
		Timeouts:    extender.Timeouts{Verb: metav1.Duration{Duration: testVerb}, Hold: metav1.Duration{Duration: testHold}},
		BindingMode: config.BindingModeDirect,
		Scoring:     config.VolumeScoring{Strategy: config.ScoringBestFit, StaticWeightPercent: 50},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.Extender, w.handler = made, made.Handler()
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() {
		w.Wait()
		close(stop)
		factory.Shutdown()
	})
	if !w.cache.Ready(t.Context().Done()) {
		t.Fatal("the engine did not become ready")
	}
	return w
}

// post calls a verb with anything.
func (w *world) post(verb string, body []byte) *httptest.ResponseRecorder {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "/"+verb, bytes.NewReader(body)))
	return answer
}

// ask calls a verb and reads its answer.
func ask[Result any](w *world, verb string, args any) Result {
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

func (w *world) filterNames(pod *v1.Pod, nodes ...string) extenderv1.ExtenderFilterResult {
	w.t.Helper()
	return ask[extenderv1.ExtenderFilterResult](w, VerbFilter, extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes})
}

// bindTo returns the error that a bind answers.
func (w *world) bindTo(pod *v1.Pod, node string) string {
	w.t.Helper()
	result := ask[extenderv1.ExtenderBindingResult](w, VerbBind, bindArgs(pod, node))
	if err := w.cache.Check(); err != nil {
		w.t.Error(err)
	}
	return result.Error
}

func bindArgs(pod *v1.Pod, node string) extenderv1.ExtenderBindingArgs {
	return extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node}
}

// on is the node that the API server has for the pod.
func (w *world) on(pod *v1.Pod) string {
	w.t.Helper()
	live, err := w.client.CoreV1().Pods(pod.Namespace).Get(w.t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return live.Spec.NodeName
}

func (w *world) claim(name string) *v1.PersistentVolumeClaim {
	w.t.Helper()
	live, err := w.client.CoreV1().PersistentVolumeClaims("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return live.DeepCopy()
}

// eventually waits until the informers have shown what makes it true.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited in vain for %s", what)
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
func room(node, size string) runtime.Object {
	return builders.MakeCapacity("room-"+node, "csi").Namespace("default").UID("capacity-" + node).Hostname(node).Capacity(size).Obj()
}
