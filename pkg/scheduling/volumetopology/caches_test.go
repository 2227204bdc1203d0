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

// TestProfilesShareCache: a volume that one profile has reserved is not assigned by
// another profile, whatever its arguments.
func TestProfilesShareCache(t *testing.T) {
	t.Parallel()
	w := newTestbed(t, localClass().Obj(), node("a").Obj(), volume("v", "a", "1Gi").Obj(), volume("w", "a", "2Gi").Obj(),
		claim("c", "1Gi").Obj(), claim("d", "1Gi").Obj())
	seconds := int64(30)
	other := w.plugin(&configv1.VolumeTopologyArgs{
		BindTimeoutSeconds: &seconds,
		BindingMode:        configv1.BindingModePVController,
		Scoring:            configv1.VolumeScoring{Strategy: configv1.ScoringMostAllocated},
	})
	if other.cache != w.cache {
		t.Fatal("two profiles of one scheduler have two caches")
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
		t.Errorf("the second profile reserves (-want +got):\n%s", diff)
	}
}

// TestSchedulersHaveSeparateCaches: their informers deliver events at different times.
func TestSchedulersHaveSeparateCaches(t *testing.T) {
	t.Parallel()
	if one, other := newTestbed(t), newTestbed(t); one.cache == other.cache {
		t.Error("two informer factories share a cache")
	}
}

// TestCachesAreRemoved: nothing is left of a scheduler that has ended.
func TestCachesAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := &cacheSet{caches: map[informers.SharedInformerFactory]*volumecache.Cache{}}
		factory := stoppedInformers(fake.NewClientset(), closed)
		ctx, cancel := context.WithCancel(t.Context())
		first, err := set.of(ctx, factory)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if len(set.caches) > 0 {
			t.Error("the cache of a scheduler that has ended is not removed")
		}
		second, err := set.of(t.Context(), factory)
		if err != nil {
			t.Fatal(err)
		}
		if first == second {
			t.Error("a scheduler got the cache of one that has ended")
		}
	})
}

// TestArgumentsAreChecked: errors contain the names of the plugin and the field.
func TestArgumentsAreChecked(t *testing.T) {
	t.Parallel()
	seconds := int64(0)
	w := newTestbed(t)
	_, err := New(t.Context(), &configv1.VolumeTopologyArgs{BindTimeoutSeconds: &seconds}, handle{client: w.client, factory: w.factory})
	if err == nil || !strings.Contains(err.Error(), "VolumeTopology") || !strings.Contains(err.Error(), "bindTimeoutSeconds") {
		t.Errorf("error %v, want one about bindTimeoutSeconds of VolumeTopology", err)
	}
}

// TestBindingModeByPermissions: Direct needs permissions that stock scheduler roles lack.
func TestBindingModeByPermissions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		configured configv1.BindingMode
		allowed    map[string]bool // by resource
		err        error
		want       binder.Mode
	}{
		"all permissions":           {configv1.BindingModeDirect, map[string]bool{"persistentvolumes": true, "persistentvolumeclaims": true}, nil, binder.Direct},
		"no permission for volumes": {configv1.BindingModeDirect, map[string]bool{"persistentvolumeclaims": true}, nil, binder.PVController},
		"no permission for claims":  {configv1.BindingModeDirect, map[string]bool{"persistentvolumes": true}, nil, binder.PVController},
		"the review fails":          {configv1.BindingModeDirect, nil, errors.New("no answer"), binder.Direct},
		"not needed":                {configv1.BindingModePVController, nil, nil, binder.PVController},
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
				t.Error("a review was requested that is not needed")
			}
		})
	}
}
