// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"

	"stowage.dev/stowage/pkg/controller/pvbinder/rules"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
	"stowage.dev/stowage/pkg/testing/builders"
)

// newController returns a controller and its informers, none of which run yet.
func newController(t testing.TB, client *fake.Clientset, recorder events.EventRecorder) (*Controller, informers.SharedInformerFactory) {
	t.Helper()
	metrics.RegisterController()
	factory := informers.NewSharedInformerFactory(client, 0)
	cache, err := volumecache.New(volumecache.Config{Informers: factory, ByClass: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Client: client, Informers: factory, Cache: cache, Events: recorder})
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range []loop.Queue{c.claims, c.volumes, c.matcher.classes} {
		t.Cleanup(queue.ShutDown)
	}
	return c, factory
}

// measure returns a function that returns by how much the metrics of this controller have changed since, by
// the rest of their name and their label; of a histogram the number of observations. They are the process's,
// so its users are not parallel.
func measure(t *testing.T) func() map[string]float64 {
	t.Helper()
	before := measured(t)
	return func() map[string]float64 {
		t.Helper()
		changes := measured(t)
		for name, value := range before {
			if changes[name] -= value; changes[name] == 0 {
				delete(changes, name)
			}
		}
		return changes
	}
}

func measured(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		name, ok := strings.CutPrefix(family.GetName(), "stowage_controller_in_place_")
		if !ok {
			continue
		}
		for _, metric := range family.GetMetric() {
			key := name
			for _, label := range metric.GetLabel() {
				key = strings.Join([]string{key, label.GetValue()}, " ")
			}
			if value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount()); value != 0 {
				values[key] = value
			}
		}
	}
	return values
}

// TestCount: a claim is counted when its phase becomes Bound or Lost; the time of one that waits for a pod,
// or that was Lost, is not observed.
func TestCount(t *testing.T) {
	late := builders.MakeClass("late").Obj()
	for name, tc := range map[string]struct {
		before, after v1.PersistentVolumeClaimPhase
		class         string
		do            rules.Action
		want          map[string]float64
	}{
		"bound":                 {before: v1.ClaimPending, after: v1.ClaimBound, want: map[string]float64{"claims_total bound": 1, "bind_duration_seconds": 1}},
		"new, bound":            {after: v1.ClaimBound, want: map[string]float64{"claims_total bound": 1, "bind_duration_seconds": 1}},
		"bound after its pod":   {before: v1.ClaimPending, after: v1.ClaimBound, class: "late", want: map[string]float64{"claims_total bound": 1}},
		"lost":                  {before: v1.ClaimBound, after: v1.ClaimLost, want: map[string]float64{"claims_total lost": 1}},
		"bound again":           {before: v1.ClaimLost, after: v1.ClaimBound, want: map[string]float64{"claims_total bound": 1}},
		"its status is updated": {before: v1.ClaimBound, after: v1.ClaimBound, want: map[string]float64{}},
		"pending":               {after: v1.ClaimPending, want: map[string]float64{}},
		"not its status":        {before: v1.ClaimPending, after: v1.ClaimBound, do: rules.WriteClaim, want: map[string]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newController(t, fake.NewClientset(), events.NewFakeRecorder(1))
			if err := c.classInformer.GetStore().Add(late); err != nil {
				t.Fatal(err)
			}
			if tc.do == "" {
				tc.do = rules.WriteClaimStatus
			}
			changes := measure(t)
			claim := func(phase v1.PersistentVolumeClaimPhase) *v1.PersistentVolumeClaim {
				return builders.MakePVC("c").Class(tc.class).Phase(phase).Obj()
			}
			c.count(claim(tc.before), rules.Decision{Do: tc.do, Claim: claim(tc.after)})
			if diff := cmp.Diff(tc.want, changes()); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

// TestConflicts: a write that conflicts is counted by its resource, and decided again like that of an
// object that is gone.
func TestConflicts(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal error
		do      rules.Action
		want    map[string]float64
	}{
		"a volume":             {apierrors.NewConflict(v1.Resource("persistentvolumes"), "v", nil), rules.WriteVolume, map[string]float64{"conflicts_total persistentvolumes": 1}},
		"status of a volume":   {apierrors.NewConflict(v1.Resource("persistentvolumes"), "v", nil), rules.WriteVolumeStatus, map[string]float64{"conflicts_total persistentvolumes": 1}},
		"a claim":              {apierrors.NewConflict(v1.Resource("persistentvolumeclaims"), "c", nil), rules.WriteClaim, map[string]float64{"conflicts_total persistentvolumeclaims": 1}},
		"a claim that is gone": {apierrors.NewNotFound(v1.Resource("persistentvolumeclaims"), "c"), rules.WriteClaimStatus, map[string]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.refusal })
			c, _ := newController(t, client, events.NewFakeRecorder(1))
			d := rules.Decision{Do: tc.do}
			if tc.do == rules.WriteVolume || tc.do == rules.WriteVolumeStatus {
				d.Volume = builders.MakePV("v").Obj()
			} else {
				d.Claim = builders.MakePVC("c").Obj()
			}
			changes := measure(t)
			if err := c.act(t.Context(), d); !errors.Is(err, loop.ErrStale) {
				t.Errorf("got %v, want %v", err, loop.ErrStale)
			}
			if diff := cmp.Diff(tc.want, changes()); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOtherController: when another manager sets the phase of a volume, the controller writes nothing more,
// with an event and a metric until its process ends; a standby replica ignores it.
func TestOtherController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, recorder := fake.NewClientset(), events.NewFakeRecorder(10)
		c, factory := newController(t, client, recorder)
		changes := measure(t)
		before := builders.MakePV("v").Obj()
		after := before.DeepCopy()
		after.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", Subresource: "status"}}
		ctx, stop := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		c.checkWriter(before, after) // this replica does not lead
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		<-time.After(time.Second) // until the informers are synced
		synctest.Wait()
		if got := changes(); len(got) > 0 || len(recorder.Events) > 0 {
			t.Errorf("metrics %v and %d events before it leads", got, len(recorder.Events))
		}
		c.checkWriter(before, after)
		c.checkWriter(before, after)
		synctest.Wait()
		if diff := cmp.Diff(map[string]float64{"stopped": 1}, changes()); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
		if n := len(recorder.Events); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
		if _, err := client.CoreV1().PersistentVolumes().Create(ctx, builders.MakePV("new").Phase("").Obj(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, action := range client.Actions() {
			if action.GetVerb() == "update" {
				t.Errorf("it has written %s", action.GetResource().Resource)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
		if got := changes(); len(got) > 0 {
			t.Errorf("metrics %v after its end", got)
		}
	})
}
