// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

type objects struct {
	claims  map[string]*v1.PersistentVolumeClaim
	classes map[string]*storagev1.StorageClass
}

func (o objects) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	return o.claims[namespace+"/"+name]
}
func (o objects) Class(name string) *storagev1.StorageClass { return o.classes[name] }

func TestClassify(t *testing.T) {
	t.Parallel()
	claim := func(name string) *builders.PVC {
		return builders.MakePVC(name).Namespace("default").UID("pvc-" + name).Class("late").Request("1Gi")
	}
	pod := func() *builders.Pod { return builders.MakePod("p").Namespace("default").UID("pod-p") }
	owner := pod().Obj()
	classes := map[string]*storagev1.StorageClass{
		"late":      builders.MakeClass("late").BindingMode(storagev1.VolumeBindingWaitForFirstConsumer).Obj(),
		"immediate": builders.MakeClass("immediate").BindingMode(storagev1.VolumeBindingImmediate).Obj(),
		"unset":     {},
	}
	type outcome struct {
		Bound, Delayed []string
		Refusal        string
	}
	tests := map[string]struct {
		pod    *v1.Pod
		claims []*v1.PersistentVolumeClaim
		want   outcome
	}{
		"no claims": {pod: pod().Obj()},
		"bound and delayed, in the pod's order": {
			pod:    pod().PVC("b", "c", "a").Obj(),
			claims: []*v1.PersistentVolumeClaim{claim("a").Obj(), claim("b").Bound("v").Obj(), claim("c").Obj()},
			want:   outcome{Bound: []string{"b"}, Delayed: []string{"c", "a"}},
		},
		"one claim in two volumes counts once": {
			pod: pod().PVC("a", "a").Obj(), claims: []*v1.PersistentVolumeClaim{claim("a").Obj()}, want: outcome{Delayed: []string{"a"}},
		},
		"missing claim": {pod: pod().PVC("a").Obj(), want: outcome{Refusal: `persistentvolumeclaim "a" not found`}},
		"missing ephemeral claim": {
			pod:  pod().Ephemeral("scratch", claim("any").Obj()).Obj(),
			want: outcome{Refusal: `waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"`},
		},
		"ephemeral claim of the pod": {
			pod:    pod().Ephemeral("scratch", claim("any").Obj()).Obj(),
			claims: []*v1.PersistentVolumeClaim{claim("p-scratch").OwnedBy(owner).Obj()},
			want:   outcome{Delayed: []string{"p-scratch"}},
		},
		"ephemeral claim without owner": {
			pod:    pod().Ephemeral("scratch", claim("any").Obj()).Obj(),
			claims: []*v1.PersistentVolumeClaim{claim("p-scratch").Obj()},
			want:   outcome{Refusal: `persistentvolumeclaim "p-scratch" was not created for pod "p" (pod is not owner)`},
		},
		"lost claim": {
			pod:    pod().PVC("a").Obj(),
			claims: []*v1.PersistentVolumeClaim{claim("a").Bound("v").Phase(v1.ClaimLost).Obj()},
			want:   outcome{Refusal: `persistentvolumeclaim "a" bound to non-existent persistentvolume "v"`},
		},
		"claim being deleted": {
			pod: pod().PVC("a").Obj(), claims: []*v1.PersistentVolumeClaim{claim("a").Deleting().Obj()},
			want: outcome{Refusal: `persistentvolumeclaim "a" is being deleted`},
		},
		"immediate claim": {
			pod: pod().PVC("a").Obj(), claims: []*v1.PersistentVolumeClaim{claim("a").Class("immediate").Obj()},
			want: outcome{Refusal: "pod has unbound immediate PersistentVolumeClaims"},
		},
		"class without a binding mode counts as immediate": {
			pod: pod().PVC("a").Obj(), claims: []*v1.PersistentVolumeClaim{claim("a").Class("unset").Obj()},
			want: outcome{Refusal: "pod has unbound immediate PersistentVolumeClaims"},
		},
		"claim without class": {
			pod: pod().PVC("a").Obj(), claims: []*v1.PersistentVolumeClaim{claim("a").Class("").Obj()},
			want: outcome{Refusal: "pod has unbound immediate PersistentVolumeClaims"},
		},
		"claim that names its volume is bound by the PV controller": {
			pod: pod().PVC("a").Obj(), claims: []*v1.PersistentVolumeClaim{claim("a").VolumeName("v").Obj()},
			want: outcome{Refusal: "pod has unbound immediate PersistentVolumeClaims"},
		},
		"missing class": {
			pod: pod().PVC("a").Obj(), claims: []*v1.PersistentVolumeClaim{claim("a").Class("nil").Obj()},
			want: outcome{Refusal: `pod has unbound immediate PersistentVolumeClaims: storageclass "nil" of persistentvolumeclaim "a" not found`},
		},
		"an unusable claim takes precedence over an unbound one": {
			pod: pod().PVC("a", "b").Obj(), claims: []*v1.PersistentVolumeClaim{claim("a").Class("immediate").Obj()},
			want: outcome{Refusal: `persistentvolumeclaim "b" not found`},
		},
		"beta annotation names the class": {
			pod: pod().PVC("a").Obj(), claims: []*v1.PersistentVolumeClaim{claim("a").Class("immediate").BetaClass("late").Obj()},
			want: outcome{Delayed: []string{"a"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			look := objects{map[string]*v1.PersistentVolumeClaim{}, classes}
			for _, c := range tc.claims {
				look.claims[c.Namespace+"/"+c.Name] = c
			}
			set, refusal := Classify(tc.pod, look)
			var got outcome
			for _, c := range set.Bound {
				got.Bound = append(got.Bound, c.Name)
			}
			for _, d := range set.Delayed {
				got.Delayed = append(got.Delayed, d.Claim.Name)
				if d.Class == nil || d.Class.Name != "late" {
					t.Errorf("claim %s has class %v", d.Claim.Name, d.Class)
				}
			}
			if refusal != nil {
				got.Refusal = refusal.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOracles: names and annotations equal those of Kubernetes.
func TestOracles(t *testing.T) {
	t.Parallel()
	pod := builders.MakePod("p").Namespace("default").UID("pod-p").Ephemeral("scratch", builders.MakePVC("x").Obj()).Obj()
	for use := range Used(pod) {
		if want := ephemeral.VolumeClaimName(pod, &pod.Spec.Volumes[0]); use.Name != want || !use.Ephemeral {
			t.Errorf("the ephemeral claim is named %q, want %q", use.Name, want)
		}
	}
	if plan.AnnSelectedNode != volume.AnnSelectedNode || plan.AnnBindCompleted != volume.AnnBindCompleted {
		t.Error("annotations differ from component-helpers'")
	}
}

func TestInTurn(t *testing.T) {
	t.Parallel()
	namespace := func(item string) string { return item[:1] }
	for name, tc := range map[string]struct{ items, want []string }{
		"none":             {nil, []string{}},
		"one namespace":    {[]string{"a2", "a1"}, []string{"a2", "a1"}},
		"three namespaces": {[]string{"a1", "a2", "a3", "b1", "a4", "c1", "b2"}, []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}},
	} {
		if diff := cmp.Diff(tc.want, InTurn(tc.items, namespace)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLateBinding(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		class *storagev1.StorageClass
		want  bool
	}{
		"none":      {},
		"immediate": {class: builders.MakeClass("c").Immediate().Obj()},
		"no mode":   {class: &storagev1.StorageClass{}},
		"late":      {class: builders.MakeClass("c").BindingMode(storagev1.VolumeBindingWaitForFirstConsumer).Obj(), want: true},
	} {
		if got := LateBinding(tc.class); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestByAge(t *testing.T) {
	t.Parallel()
	claim := func(uid string, seconds int64) *v1.PersistentVolumeClaim {
		c := builders.MakePVC("c").UID(uid).Obj()
		c.CreationTimestamp = metav1.Unix(seconds, 0)
		return c
	}
	for name, tc := range map[string]struct {
		a, b *v1.PersistentVolumeClaim
		want int
	}{
		"older":    {claim("b", 1), claim("a", 2), -1},
		"younger":  {claim("a", 2), claim("b", 1), 1},
		"same age": {claim("a", 1), claim("b", 1), -1},
	} {
		if got := ByAge(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
