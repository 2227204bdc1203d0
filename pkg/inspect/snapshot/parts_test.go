// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

func podOf(namespace, name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: version}}
}

// TestSet: a set has the last object of each name that was not deleted, and a part has what the set had.
func TestSet(t *testing.T) {
	t.Parallel()
	type step func(*Set) error
	put := func(object any) step { return func(s *Set) error { return s.Put(object) } }
	remove := func(object Object) step {
		return func(s *Set) error {
			s.Delete(object)
			return nil
		}
	}
	for name, test := range map[string]struct {
		steps []step
		want  []string
		fails string
	}{
		"empty":                           {},
		"added":                           {steps: []step{put(podOf("n", "a", "1")), put(podOf("n", "b", "2"))}, want: []string{"n/a 1", "n/b 2"}},
		"the same name in two namespaces": {steps: []step{put(podOf("n", "a", "1")), put(podOf("m", "a", "2"))}, want: []string{"m/a 2", "n/a 1"}},
		"replaced":                        {steps: []step{put(podOf("n", "a", "1")), put(podOf("n", "b", "2")), put(podOf("n", "a", "3"))}, want: []string{"n/a 3", "n/b 2"}},
		"the first is deleted, and the moved one is replaced": {
			steps: []step{put(podOf("n", "a", "1")), put(podOf("n", "b", "2")), put(podOf("n", "c", "3")), remove(podOf("n", "a", "9")), put(podOf("n", "c", "4"))},
			want:  []string{"n/b 2", "n/c 4"},
		},
		"the last is deleted": {steps: []step{put(podOf("n", "a", "1")), put(podOf("n", "b", "2")), remove(podOf("n", "b", "2"))}, want: []string{"n/a 1"}},
		"all are deleted, and one is added": {
			steps: []step{put(podOf("n", "a", "1")), remove(podOf("n", "a", "1")), put(podOf("n", "b", "2"))}, want: []string{"n/b 2"},
		},
		"an unknown one is deleted": {steps: []step{put(podOf("n", "a", "1")), remove(podOf("n", "b", "2"))}, want: []string{"n/a 1"}},
		"another kind":              {steps: []step{put(&corev1.Node{})}, fails: "*v1.Node is not a Pod"},
		"nothing":                   {steps: []step{put(nil)}, fails: "<nil> is not a Pod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewSet(KindOf[*corev1.Pod]())
			fails := ""
			for _, step := range test.steps {
				if err := step(s); err != nil {
					fails = err.Error()
				}
			}
			if fails != test.fails {
				t.Errorf("error %q, want %q", fails, test.fails)
			}
			part := s.Part()
			for _, object := range Of[*corev1.Pod](Assemble(time.Time{}, nil, part)) {
				s.Delete(object) // the part keeps it
			}
			if left := Of[*corev1.Pod](Assemble(time.Time{}, nil, s.Part())); len(left) > 0 {
				t.Errorf("%d are left after all were deleted", len(left))
			}
			var got []string
			for _, pod := range Of[*corev1.Pod](Assemble(time.Time{}, nil, part)) {
				got = append(got, pod.Namespace+"/"+pod.Name+" "+pod.ResourceVersion)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAssemble: a snapshot has what its parts have, and says what they lack. Two parts may be of one kind.
func TestAssemble(t *testing.T) {
	t.Parallel()
	of := func(k Kind, objects ...Object) Part {
		s := NewSet(k)
		for _, object := range objects {
			if err := s.Put(object); err != nil {
				t.Fatal(err)
			}
		}
		return s.Part()
	}
	nodes, reports := of(KindOf[*corev1.Node]()), of(KindOf[*stowage.LocalDiskReport]())
	nodes.Gap = &Gap{Resource: "nodes", Reason: "forbidden"}
	reports.Absent = true
	claims := of(KindOf[*corev1.PersistentVolumeClaim]())
	claims.Gap = &Gap{Resource: "claims", Except: "n"}
	pods := KindOf[*corev1.Pod]()
	first, second := of(pods, podOf("n", "a", "1")), of(pods, podOf("m", "a", "2"))

	at, server := time.Unix(1, 0), &version.Info{GitVersion: "v1.37.1"}
	s := Assemble(at, server, nodes, first, reports, second, claims)
	if diff := cmp.Diff([]Gap{*claims.Gap, *nodes.Gap}, s.Gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	got := []bool{Complete[*corev1.Pod](s), Complete[*corev1.Node](s), Complete[*corev1.Service](s), Served[*stowage.LocalDiskReport](s), Served[*corev1.Node](s)}
	if diff := cmp.Diff([]bool{true, false, false, false, true}, got); diff != "" {
		t.Errorf("complete pods, nodes, services; served reports, nodes (-want +got):\n%s", diff)
	}
	if len(Of[*corev1.Pod](s)) != 2 || len(Of[*corev1.Pod](Assemble(at, server, first))) != 1 {
		t.Error("a pod is missing, or a part was changed")
	}
	if !s.Time.Equal(at) || s.Server != server {
		t.Errorf("time %s, server %v", s.Time, s.Server)
	}
}
