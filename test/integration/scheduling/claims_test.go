// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// finalizers is a patch that sets the finalizers of any object.
func finalizers(names ...string) any {
	return map[string]any{"metadata": map[string]any{"finalizers": names}}
}

// TestImmediateClaims: the PV controller binds them; the pod waits for that.
func TestImmediateClaims(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	class := e.CreateClass(e.Class("immediate").Immediate()).Name
	pod := create(e, scene{
		nodes:  []*builders.Node{e.Node("a"), e.Node("b")},
		claims: []*builders.PVC{e.PVC("data").Class(class)},
	})
	e.WaitUnschedulable(pod, immediate)
	e.CreatePVs(e.LocalPV("volume", "b").Class(class))
	e.WaitScheduled(pod, "b")
	wantBindings(e, map[string]string{"data": "volume"})
}

// TestImmediateBesideDelayed: the immediate claim decides on the node, the
// delayed one gets a volume there.
func TestImmediateBesideDelayed(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	class := e.CreateClass(e.Class("immediate").Immediate()).Name
	pod := create(e, scene{
		nodes: []*builders.Node{e.Node("a"), e.Node("b")},
		volumes: []*builders.PV{
			e.LocalPV("now", "b").Class(class), e.LocalPV("later-on-a", "a"), e.LocalPV("later-on-b", "b").Capacity("4Gi"),
		},
		claims: []*builders.PVC{e.PVC("log"), e.PVC("data").Class(class)},
	})
	e.WaitScheduled(pod, "b")
	wantBindings(e, map[string]string{"data": "now", "log": "later-on-b"})
}

// TestMissingClaim: the pod's condition names it, and the pod is placed when it exists.
func TestMissingClaim(t *testing.T) {
	t.Parallel()
	fixture.BothModes(t, func(e *fixture.Env) {
		pod := create(e, scene{
			nodes:   []*builders.Node{e.Node("a")},
			volumes: []*builders.PV{e.LocalPV("volume", "a")},
			pod:     e.Pod("pod").PVC("data"),
		})
		refused := e.WaitUnschedulable(pod, `persistentvolumeclaim "data" not found`)
		// What plugins after ours say, which have not seen the pod, must not follow.
		if got := fixture.Refusal(refused); !strings.HasSuffix(got, `: persistentvolumeclaim "data" not found.`) {
			t.Errorf("the pod's condition is %q, want no more than the sentence on the claim", got)
		}
		e.CreatePVC(e.PVC("data"))
		e.WaitScheduled(pod, "a")
		wantBindings(e, map[string]string{"data": "volume"})
	})
}

// TestLostClaim: the volume of a bound claim has been deleted by force.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a"))
	bindTo(e, "data", "a")
	volume := e.Name("of-data")
	if err := e.Client.CoreV1().PersistentVolumes().Delete(e.Context(), volume, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.PatchPV("of-data", finalizers())
	e.WaitPVC("data", "Lost", func(c *v1.PersistentVolumeClaim) bool { return c.Status.Phase == v1.ClaimLost })
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	e.WaitUnschedulable(pod, `persistentvolumeclaim "data" bound to non-existent persistentvolume "`+volume+`"`)
}

// TestDeletedClaim: a claim that is being deleted is not used; one that takes its
// place is.
func TestDeletedClaim(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a"))
	e.CreatePVs(e.LocalPV("volume", "a"))
	e.CreatePVC(e.PVC("data"))
	e.PatchPVC("data", finalizers("stowage.dev/test"))
	e.DeletePVC("data")
	pod := e.CreatePod(e.Pod("pod").PVC("data"))
	e.WaitUnschedulable(pod, `persistentvolumeclaim "data" is being deleted`)
	e.PatchPVC("data", finalizers())
	e.Wait("claim data to be deleted", func() bool { return e.SeenPVC("data") == nil })
	e.CreatePVC(e.PVC("data"))
	e.WaitScheduled(pod, "a")
	wantBindings(e, map[string]string{"data": "volume"})
}

// TestMissingClass: the pod's condition names it, and the pod is placed when it exists.
func TestMissingClass(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*fixture.Env, string) *builders.PVC{
		"in the spec": func(e *fixture.Env, class string) *builders.PVC { return e.PVC("data").Class(class) },
		"in the beta annotation": func(e *fixture.Env, class string) *builders.PVC {
			return builders.MakePVC("data").Namespace(e.Namespace).BetaClass(class)
		},
	}
	for name, claim := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.New(t)
			class := e.Name("later")
			pod := create(e, scene{
				nodes:   []*builders.Node{e.Node("a")},
				volumes: []*builders.PV{e.LocalPV("volume", "a").Class(class)},
				claims:  []*builders.PVC{claim(e, class)},
			})
			e.WaitUnschedulable(pod, immediate, `storageclass "`+class+`" of persistentvolumeclaim "data" not found`)
			e.CreateClass(e.Class("later"))
			e.WaitScheduled(pod, "a")
			wantBindings(e, map[string]string{"data": "volume"})
		})
	}
}

// TestClaimWithoutClass is bound by the PV controller, to volumes without class.
func TestClaimWithoutClass(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	pod := create(e, scene{
		nodes:  []*builders.Node{e.Node("a"), e.Node("b")},
		claims: []*builders.PVC{e.PVC("data").Class("").MatchLabel("for", e.Namespace)},
	})
	e.WaitUnschedulable(pod, immediate)
	e.CreatePVsUnseen(e.LocalPV("volume", "b").Class("").Label("for", e.Namespace))
	e.WaitScheduled(pod, "b")
	wantBindings(e, map[string]string{"data": "volume"})
}

// TestGenericEphemeralVolumes: their claims are the pod's own.
func TestGenericEphemeralVolumes(t *testing.T) {
	t.Parallel()
	t.Run("get volumes like any other claim", func(t *testing.T) {
		t.Parallel()
		fixture.BothModes(t, func(e *fixture.Env) {
			pod := create(e, scene{
				nodes:   []*builders.Node{e.Node("a"), e.Node("b")},
				volumes: []*builders.PV{e.LocalPV("on-a", "a"), e.LocalPV("on-b-1", "b"), e.LocalPV("on-b-2", "b").Capacity("3Gi")},
				claims:  []*builders.PVC{e.PVC("data").Request("2Gi")},
				pod:     e.Pod("pod").Ephemeral("scratch", e.PVC("").Obj()).PVC("data"),
			})
			e.WaitScheduled(pod, "b")
			wantBindings(e, map[string]string{"pod-scratch": "on-b-1", "data": "on-b-2"})
		})
	})
	t.Run("a claim of that name that is not the pod's is refused", func(t *testing.T) {
		t.Parallel()
		e := fixture.New(t)
		pod := create(e, scene{
			nodes:   []*builders.Node{e.Node("a")},
			volumes: []*builders.PV{e.LocalPV("volume", "a")},
			claims:  []*builders.PVC{e.PVC("pod-scratch")},
			pod:     e.Pod("pod").Ephemeral("scratch", e.PVC("").Obj()),
		})
		e.WaitUnschedulable(pod, `persistentvolumeclaim "pod-scratch" was not created for pod "pod" (pod is not owner)`)
		if bound := e.Bindings(); len(bound) > 0 {
			t.Errorf("claims are bound: %v", bound)
		}
		// Without the other claim, the controller creates the right one.
		e.DeletePVC("pod-scratch")
		e.WaitScheduled(pod, "a")
		wantBindings(e, map[string]string{"pod-scratch": "volume"})
	})
}
