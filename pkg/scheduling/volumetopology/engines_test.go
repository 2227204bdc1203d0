// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumetopology

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/scheduling/binder"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// TestProfilesShareAnEngine: what one profile has reserved, no other profile
// gives away, whatever its arguments.
func TestProfilesShareAnEngine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, localClass().Obj(), node("a").Obj(), volume("v", "a", "1Gi").Obj(), volume("w", "a", "2Gi").Obj(),
		claim("c", "1Gi").Obj(), claim("d", "1Gi").Obj())
	seconds := int64(30)
	other := w.plugin(&configv1.VolumeTopologyArgs{
		BindTimeoutSeconds: &seconds,
		BindingMode:        configv1.BindingModePVController,
		Scoring:            configv1.VolumeScoring{Strategy: configv1.ScoringMostAllocated},
	})
	if other.cache != w.cache {
		t.Fatal("two profiles of one scheduler have two engines")
	}
	if status := w.begin(pod("p", "c")).reserve("a"); !status.IsSuccess() {
		t.Fatal(status)
	}
	w.Plugin = other
	second := w.begin(pod("q", "d"))
	if status := second.reserve("a"); !status.IsSuccess() {
		t.Fatal(status)
	}
	if diff := cmp.Diff(map[string]string{"d": "w"}, second.planned()); diff != "" {
		t.Errorf("the second profile gives (-want +got):\n%s", diff)
	}
}

// TestSchedulersHaveTheirOwnEngines: they hear of events at their own times.
func TestSchedulersHaveTheirOwnEngines(t *testing.T) {
	t.Parallel()
	if one, other := newWorld(t), newWorld(t); one.cache == other.cache {
		t.Error("two informer factories share an engine")
	}
}

// TestEnginesAreForgotten: a scheduler that has ended leaves nothing.
func TestEnginesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := &engineSet{caches: map[informers.SharedInformerFactory]*volumecache.Cache{}}
		factory := stoppedInformers(fake.NewClientset(), closed)
		ctx, cancel := context.WithCancel(t.Context())
		first, err := set.of(ctx, factory)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if len(set.caches) > 0 {
			t.Error("the engine of a scheduler that has ended is not forgotten")
		}
		second, err := set.of(t.Context(), factory)
		if err != nil {
			t.Fatal(err)
		}
		if first == second {
			t.Error("a scheduler got the engine of one that has ended")
		}
	})
}

// TestArgumentsAreChecked: what is wrong is said with the plugin's name and
// the field's.
func TestArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	seconds := int64(0)
	w := newWorld(t)
	_, err := New(t.Context(), &configv1.VolumeTopologyArgs{BindTimeoutSeconds: &seconds}, handle{client: w.client, factory: w.factory})
	if err == nil || !strings.Contains(err.Error(), "VolumeTopology") || !strings.Contains(err.Error(), "bindTimeoutSeconds") {
		t.Errorf("error %v, want one about bindTimeoutSeconds of VolumeTopology", err)
	}
}

// TestBindingModeByRights: Direct needs rights that stock scheduler roles lack.
func TestBindingModeByRights(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		configured configv1.BindingMode
		allowed    map[string]bool // by resource
		err        error
		want       binder.Mode
	}{
		"all rights":                   {configv1.BindingModeDirect, map[string]bool{"persistentvolumes": true, "persistentvolumeclaims": true}, nil, binder.Direct},
		"the right to volumes lacks":   {configv1.BindingModeDirect, map[string]bool{"persistentvolumeclaims": true}, nil, binder.PVController},
		"the right to claims lacks":    {configv1.BindingModeDirect, map[string]bool{"persistentvolumes": true}, nil, binder.PVController},
		"nobody can tell: they may do": {configv1.BindingModeDirect, nil, errors.New("no answer"), binder.Direct},
		"not needed":                   {configv1.BindingModePVController, nil, nil, binder.PVController},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(func(resource string) bool { return tc.allowed[resource] })
			if tc.err != nil {
				client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			}
			args, err := configv1.DecodeArgs(&configv1.VolumeTopologyArgs{BindingMode: tc.configured})
			if err != nil {
				t.Fatal(err)
			}
			if got := binder.Permitted(t.Context(), client, binder.Mode(args.BindingMode)); got != tc.want {
				t.Errorf("mode %s, want %s", got, tc.want)
			}
			if tc.configured == configv1.BindingModePVController && len(client.Actions()) > 0 {
				t.Error("asked for rights that are not needed")
			}
		})
	}
}
