// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	extender "stowage.dev/stowage/pkg/apis/extender/v1alpha1"
)

// TestBindOfUnobservedPod: the scheduler's informers may be ahead of the extender's, so a pod
// may exist that the extender has not observed.
func TestBindOfUnobservedPod(t *testing.T) {
	t.Parallel()
	p := pod("p", "c")
	tests := map[string]struct {
		// live is the API server's.
		live *v1.Pod
		want string
	}{
		"the pod exists":  {live: p},
		"the pod is gone": {want: "not found"},
		"another pod":     {live: pod("other", "c"), want: "recreated"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestbed(t, extender.ModeFull, localClass(), node("a"), volume("v", "a", "1Gi").Obj(), claim("c", "1Gi").Obj())
			bound := ""
			w.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if tc.live == nil {
					return true, nil, apierrors.NewNotFound(v1.Resource("pods"), p.Name)
				}
				return true, tc.live, nil
			})
			w.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
				bound = binding.Target.Name
				return true, binding, nil
			})
			err := w.bindTo(p, "a")
			if tc.want != "" {
				if !strings.Contains(err, tc.want) || bound != "" || w.claim("c").Spec.VolumeName != "" {
					t.Errorf("error %q, bound to %q; want one with %q", err, bound, tc.want)
				}
				return
			}
			if err != "" || bound != "a" || w.claim("c").Spec.VolumeName != "v" {
				t.Errorf("error %q, pod is on %q, claim has %q", err, bound, w.claim("c").Spec.VolumeName)
			}
		})
	}
}

// TestBoundVolumeIsNotOfferedAgain: a bind releases its reservations when the call ends,
// before the informers may have delivered what it wrote.
func TestBoundVolumeIsNotOfferedAgain(t *testing.T) {
	t.Parallel()
	p, q := pod("p", "c"), pod("q", "d")
	w := newTestbed(t, extender.ModeFull, localClass(), node("a"), node("b"), volume("v", "a", "1Gi").Obj(), volume("w", "b", "1Gi").Obj(),
		claim("c", "1Gi").Obj(), claim("d", "1Gi").Obj(), p, q)
	for _, resource := range []string{"persistentvolumes", "persistentvolumeclaims"} {
		w.client.PrependReactor("update", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			return true, w.stamped(action.(clienttesting.UpdateAction).GetObject()), nil // and no event
		})
	}
	if err := w.bindTo(p, "a"); err != "" {
		t.Fatal(err)
	}
	if size := w.cache.Size(); size.Reservations != 0 {
		t.Fatalf("%d reservations are left", size.Reservations)
	}
	if got := *w.filterNames(q, "a", "b").NodeNames; !slices.Equal(got, []string{"b"}) {
		t.Errorf("the next pod may go to %v, want only b", got)
	}
	if got := *w.filterNames(p, "a", "b").NodeNames; !slices.Equal(got, []string{"a"}) {
		t.Errorf("the pod itself may go to %v, want only a", got)
	}
}
