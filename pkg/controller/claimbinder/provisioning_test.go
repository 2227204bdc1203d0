// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package claimbinder

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/scheduling/plan"
)

// provisioned is the volume that a provisioner creates for the claim.
func provisioned(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return volume("pv-"+c.Name).Hostname(c.Annotations[plan.AnnSelectedNode]).ClaimRef("default", c.Name, string(c.UID)).
		ProvisionedBy(dynamic).Phase(corev1.VolumeBound).Obj()
}

// TestProvisioning: what happens to a claim whose node was selected.
func TestProvisioning(t *testing.T) {
	t.Parallel()
	selectsNot := func(s *site, not string) {
		s.t.Helper()
		if got := s.claim("a").Annotations[plan.AnnSelectedNode]; got == not || got == "" {
			s.t.Errorf("node %q is selected, want another than %q", got, not)
		}
	}
	for name, then := range map[string]func(s *site, selected string){
		"the provisioner creates the volume": func(*site, string) {},
		"it rejects the node": func(s *site, selected string) {
			s.edit("a", func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, plan.AnnSelectedNode) })
			later(time.Second)
			selectsNot(s, selected)
			if diff := cmp.Diff([]string{eventRejected}, s.eventsOf("a")); diff != "" {
				s.t.Errorf("events (-want +got):\n%s", diff)
			}
		},
		"it rejects all nodes, several times": func(s *site, selected string) {
			for range 5 {
				s.edit("a", func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, plan.AnnSelectedNode) })
				later(10 * time.Second)
				selectsNot(s, selected)
				selected = s.claim("a").Annotations[plan.AnnSelectedNode]
			}
		},
		"the node is deleted": func(s *site, selected string) {
			if err := s.client.CoreV1().Nodes().Delete(s.t.Context(), selected, metav1.DeleteOptions{}); err != nil {
				s.t.Fatal(err)
			}
			later(time.Second)
			selectsNot(s, selected)
		},
		"another controller continues": func(s *site, selected string) {
			s.end()
			s.start()
			later(time.Second)
			if got := s.claim("a").Annotations[plan.AnnSelectedNode]; got != selected {
				s.t.Errorf("node %q is selected, want still %q", got, selected)
			}
		},
		"the class is deleted": func(s *site, _ string) {
			if err := s.client.StorageV1().StorageClasses().Delete(s.t.Context(), "local", metav1.DeleteOptions{}); err != nil {
				s.t.Fatal(err)
			}
			later(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, class(dynamic), node("n1"), node("n2"), claim("a").Obj())
				later(time.Second)
				selected := s.claim("a").Annotations[plan.AnnSelectedNode]
				if selected == "" || s.claim("a").Annotations[plan.AnnStorageProvisioner] != dynamic {
					t.Fatalf("annotations %v", s.claim("a").Annotations)
				}
				then(s, selected)
				s.put(provisioned(s.claim("a")))
				later(time.Minute)
				if c := s.claim("a"); !plan.IsBound(c) || c.Spec.VolumeName != "pv-a" {
					t.Errorf("claim %+v is not bound", c)
				}
				s.wantIdle()
			})
		})
	}
}

// TestDeletedWhileProvisioned: nothing is kept of the claim; a new one of its name is bound.
func TestDeletedWhileProvisioned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, class(dynamic), node("n1"), claim("a").Obj())
		later(time.Second)
		s.remove("a")
		later(time.Minute)
		s.wantIdle()
		s.put(volume("v").Obj(), claim("a").UID("uid-again").Obj())
		later(time.Minute)
		if got := s.claim("a").Spec.VolumeName; got != "v" {
			t.Errorf("the new claim has volume %q", got)
		}
		s.wantIdle()
	})
}
