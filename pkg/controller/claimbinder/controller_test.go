// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

// site is a controller with a simulated API server, without a PV controller.
type site struct {
	*Controller
	t      *testing.T
	client *fake.Clientset
	end    func()

	mu      sync.Mutex
	version int
	events  map[string][]string // reasons, by claim
	most    int                 // the most claims that were being bound at once
}

// newSite runs a controller with these objects, in a bubble of synctest.
func newSite(t *testing.T, objects ...runtime.Object) *site {
	t.Helper()
	s := &site{t: t, client: fake.NewClientset(), events: map[string][]string{}}
	s.client.PrependReactor("*", "*", s.write)
	s.put(objects...)
	s.start()
	t.Cleanup(func() { s.end() })
	return s
}

// start runs a new controller.
func (s *site) start() {
	s.t.Helper()
	factory := informers.NewSharedInformerFactory(s.client, 0)
	var err error
	if s.Controller, err = New(Config{Client: s.client, Informers: factory, Events: s}); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.end = func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
		factory.Shutdown()
		s.end = func() {}
	}
	synctest.Wait()
}

// write gives each object that is written another resourceVersion.
func (s *site) write(action clienttesting.Action) (bool, runtime.Object, error) {
	update, ok := action.(clienttesting.UpdateAction) // also creations
	if !ok {
		return false, nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	update.GetObject().(metav1.Object).SetResourceVersion(strconv.Itoa(s.version))
	if s.Controller != nil {
		s.most = max(s.most, s.beingBound())
	}
	return false, nil, nil
}

func (s *site) beingBound() (n int) {
	s.Controller.mu.Lock()
	defer s.Controller.mu.Unlock()
	for _, known := range s.state {
		if known.plan != nil {
			n++
		}
	}
	return n
}

// Eventf records the reason of an event.
func (s *site) Eventf(on, _ runtime.Object, _, reason, _, note string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := on.(metav1.Object).GetName()
	s.events[name] = append(s.events[name], reason)
	s.t.Logf("event on %s: %s: %s", name, reason, fmt.Sprintf(note, args...))
}

func (s *site) eventsOf(claim string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[claim]
}

// put creates objects.
func (s *site) put(objects ...runtime.Object) {
	s.t.Helper()
	for _, object := range objects {
		var err error
		switch o := object.(type) {
		case *corev1.PersistentVolumeClaim:
			_, err = s.client.CoreV1().PersistentVolumeClaims(o.Namespace).Create(s.t.Context(), o, metav1.CreateOptions{})
		case *corev1.PersistentVolume:
			_, err = s.client.CoreV1().PersistentVolumes().Create(s.t.Context(), o, metav1.CreateOptions{})
		case *corev1.Node:
			_, err = s.client.CoreV1().Nodes().Create(s.t.Context(), o, metav1.CreateOptions{})
		case *storagev1.StorageClass:
			_, err = s.client.StorageV1().StorageClasses().Create(s.t.Context(), o, metav1.CreateOptions{})
		default:
			s.t.Fatalf("cannot create a %T", o)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if s.Controller != nil {
			synctest.Wait() // watches of the client have short buffers
		}
	}
}

func (s *site) claim(name string) *corev1.PersistentVolumeClaim {
	s.t.Helper()
	claim, err := s.client.CoreV1().PersistentVolumeClaims("default").Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return claim
}

// edit changes a claim, as its user or provisioner.
func (s *site) edit(name string, change func(*corev1.PersistentVolumeClaim)) {
	s.t.Helper()
	claim := s.claim(name)
	change(claim)
	if _, err := s.client.CoreV1().PersistentVolumeClaims("default").Update(s.t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) remove(name string) {
	s.t.Helper()
	if err := s.client.CoreV1().PersistentVolumeClaims("default").Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
}

// wantIdle checks that nothing is kept of claims that no longer wait.
func (s *site) wantIdle() {
	s.t.Helper()
	s.Controller.mu.Lock()
	defer s.Controller.mu.Unlock()
	if len(s.state) > 0 || len(s.runs) > 0 {
		s.t.Errorf("states %v and runs %v are kept", s.state, s.runs)
	}
	if err := s.volumes.Check(); err != nil {
		s.t.Error(err)
	}
	if err := s.volumes.CheckIdle(); err != nil {
		s.t.Error(err)
	}
}

func class(provisioner string) *storagev1.StorageClass {
	return builders.MakeClass("local").BindingMode(storagev1.VolumeBindingWaitForFirstConsumer).Provisioner(provisioner).Obj()
}

const static, dynamic = "kubernetes.io/no-provisioner", "csi.example.com"

func claim(name string) *builders.PVC {
	return builders.MakePVC(name).Namespace("default").UID("uid-"+name).Class("local").Request("1Gi").
		AccessModes(corev1.ReadWriteOnce).Annotation(wellknown.BindAnnotation, wellknown.BindNow)
}

func volume(name string) *builders.PV {
	return builders.MakePV(name).UID("uid-" + name).Class("local").Capacity("1Gi").Hostname("n1").
		AccessModes(corev1.ReadWriteOnce).Phase(corev1.VolumeAvailable)
}

func node(name string) *corev1.Node {
	return builders.MakeNode(name).Hostname(name).UID("uid-" + name).Obj()
}

// later lets time pass, and waits until the controller has nothing to do.
func later(after time.Duration) {
	<-time.After(after)
	synctest.Wait()
}

// TestManyClaims: at most maxBinding claims are being bound at once, and all get bound.
func TestManyClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = maxBinding + 10
		objects := []runtime.Object{class(static), node("n1")}
		for i := range n {
			objects = append(objects, volume(fmt.Sprintf("v%03d", i)).Obj(), claim(fmt.Sprintf("c%03d", i)).Obj())
		}
		s := newSite(t, objects...)
		later(time.Minute)
		for i := range n {
			if c := s.claim(fmt.Sprintf("c%03d", i)); !plan.IsBound(c) || c.Status.Phase != corev1.ClaimBound {
				t.Errorf("claim %s is not bound", c.Name)
			}
		}
		s.mu.Lock()
		if s.most > maxBinding || s.most < maxBinding/2 {
			t.Errorf("%d claims were being bound at once, want up to %d", s.most, maxBinding)
		}
		s.mu.Unlock()
		s.wantIdle()
	})
}

// TestEvents: an event is recorded once until the reason changes. A run records some, later ones
// the others.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := []runtime.Object{class(static), node("n1")}
		const n = fewEvents + 20
		for i := range n {
			objects = append(objects, claim(fmt.Sprintf("c%03d", i)).Request("5Gi").Obj())
		}
		s := newSite(t, objects...)
		later(time.Second)
		s.mu.Lock()
		got := len(s.events)
		s.mu.Unlock()
		if got != fewEvents {
			t.Errorf("%d claims have events after the first run, want %d", got, fewEvents)
		}
		later(time.Minute)
		s.put(volume("small").Obj())
		later(time.Minute)
		for i := range n {
			if diff := cmp.Diff([]string{eventNoVolume}, s.eventsOf(fmt.Sprintf("c%03d", i))); diff != "" {
				t.Fatalf("events of claim %d (-want +got):\n%s", i, diff)
			}
		}
		s.edit("c000", func(c *corev1.PersistentVolumeClaim) {
			c.Annotations[wellknown.BindAnnotation] = strings.Repeat("x", 4000)
		})
		later(time.Minute)
		if diff := cmp.Diff([]string{eventNoVolume, eventInvalid}, s.eventsOf("c000")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		for i := range n {
			s.remove(fmt.Sprintf("c%03d", i))
		}
		later(time.Minute)
		s.wantIdle()
	})
}

// TestManySelectors: claims with selectors are considered in turn, whatever others there are.
func TestManySelectors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		objects := []runtime.Object{class(static), node("n1"), volume("v").Label("tier", "last").Obj()}
		const n = 2*fewSelectors + 10
		for i := range n {
			objects = append(objects, claim(fmt.Sprintf("c%03d", i)).MatchLabel("tier", strconv.Itoa(i)).Obj())
		}
		s := newSite(t, append(objects, claim("last").MatchLabel("tier", "last").Obj())...)
		later(time.Minute)
		if got := s.claim("last").Spec.VolumeName; got != "v" {
			t.Errorf("the last claim has volume %q", got)
		}
		s.put(volume("w").Label("tier", "0").Obj())
		later(time.Minute)
		if got := s.claim("c000").Spec.VolumeName; got != "w" {
			t.Errorf("the first claim has volume %q", got)
		}
	})
}

// TestFailedWrites: a claim that cannot be written is tried again with a growing delay, and other
// claims get the volume meanwhile.
func TestFailedWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, class(static), node("n1"))
		attempts := 0
		s.client.PrependReactor("update", "persistentvolumes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			pv := action.(clienttesting.UpdateAction).GetObject().(*corev1.PersistentVolume)
			if ref := pv.Spec.ClaimRef; ref != nil && ref.Name == "a" && action.GetSubresource() == "" {
				s.mu.Lock()
				defer s.mu.Unlock()
				attempts++
				return true, nil, errors.New("the API server is ill")
			}
			return false, nil, nil
		})
		s.put(claim("a").Obj(), volume("v").Obj())
		later(10 * time.Minute)
		s.mu.Lock()
		if attempts < 10 || attempts > 200 {
			t.Errorf("%d attempts in ten minutes", attempts)
		}
		s.mu.Unlock()
		if diff := cmp.Diff([]string{eventFailed}, s.eventsOf("a")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		s.put(claim("b").Obj())
		later(5 * time.Minute)
		if got := s.claim("b").Spec.VolumeName; got != "v" {
			t.Errorf("the other claim has volume %q", got)
		}
	})
}
