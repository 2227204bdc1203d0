// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// Claims of other provisioners have the same annotation.
func TestClaimOfOtherProvisioner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "ns")
	c.settle()
	before := len(c.events)
	c.add(key{"persistentvolumeclaims", "ns", "other"}, strings.NewReplacer("provisioner: p,", "provisioner: other.csi.example.com,", "name: c\n", "name: other\n").Replace(claimText))
	c.settle()
	if diff := cmp.Diff(bound, c.summary()); diff != "" || len(c.events) > before {
		t.Errorf("(-want +got):\n%s\nevents %v", diff, c.events[before:])
	}
}

// A tenant's claim that names a released volume of another neither keeps it nor gets its events.
func TestOtherClaimNamesReleasedVolume(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "stowage-pav")
	c.settle()
	name := c.keys("persistentvolumes")[0].name
	c.failing["deletion"] = 1
	c.remove(claimKey)
	before := len(c.events)
	c.add(key{"persistentvolumeclaims", "tenant", "other"}, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: other, namespace: tenant}
spec: {volumeName: `+name+`, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	c.settle()
	if diff := cmp.Diff([]string(nil), c.summary()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, event := range c.events[before:] {
		if strings.HasPrefix(event, "*v1.PersistentVolumeClaim") {
			t.Errorf("event on the claim of another tenant: %s", event)
		}
	}
}

// Two volumes that get the same handle at the same time do not both become PersistentVolumes,
// although no informer shows one to the other.
func TestSameHandle(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "ns")
	c.settle()
	c.remove(claimKey)
	c.edit(provisionerKey, func(o object) { delete(o["spec"].(object)["volumeCreation"].(object), "handle") })
	c.settle()
	c.handle, c.late = new("same"), "pavvolumes"
	for _, name := range []string{"a", "b"} {
		c.add(key{"persistentvolumeclaims", "ns", name}, strings.Replace(claimText, "name: c\n", "name: "+name+"\n", 1))
	}
	for range 30 {
		c.round(true)
	}
	if n := len(c.keys("persistentvolumes")); n != 1 {
		t.Errorf("%d PersistentVolumes have the handle: %v", n, c.summary())
	}
	c.late = ""
	c.settle()
	for _, name := range []string{"a", "b"} { // one after the other, the handle is free again
		c.remove(key{"persistentvolumeclaims", "ns", name})
		c.settle()
	}
	if diff := cmp.Diff([]string(nil), c.summary()); diff != "" {
		t.Errorf("in the end (-want +got):\n%s", diff)
	}
}

// An administrator removes the finalizer of a PavVolume, whose pod would then keep its own finalizer and never go.
func TestPodOfRemovedVolume(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "stowage-pav")
	for len(c.keys("pods")) == 0 {
		c.round(true)
	}
	volume := c.keys("pavvolumes")[0]
	c.edit(volume, func(o object) { delete(o["metadata"].(object), "finalizers") })
	c.remove(volume)
	c.settle()
	if diff := cmp.Diff(bound, c.summary()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The copy of a claim is what informers have of it.
func TestCopyOfClaim(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "ns")
	c.edit(claimKey, func(o object) {
		o["metadata"].(object)["managedFields"] = []any{object{"manager": "kubectl", "operation": "Apply"}}
	})
	c.settle()
	volume := c.objects[c.keys("pavvolumes")[0]]
	if fields := nested(volume, "spec", "claim", "metadata", "managedFields"); fields != nil {
		t.Errorf("managed fields are copied: %v", fields)
	}
}

// While a deleted provisioner has volumes, an event of one costs no list of all.
func TestDeletedProvisionerWithVolumes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "ns")
	c.settle()
	c.remove(provisionerKey)
	c.watch(true)
	before := c.lists
	if _, err := c.c.reconcileProvisioner(t.Context(), "p"); err != nil || c.lists > before {
		t.Errorf("error %v, %d lists", err, c.lists-before)
	}
}

func TestProvisionerChanged(t *testing.T) {
	t.Parallel()
	status := func(revision string, accepted metav1.ConditionStatus, message string) stowage.PavProvisionerStatus {
		return stowage.PavProvisionerStatus{Revision: revision, Conditions: []metav1.Condition{{Type: stowage.ConditionAccepted, Status: accepted, Message: message}}}
	}
	deleted := func(message string) *stowage.PavProvisioner {
		return &stowage.PavProvisioner{
			ObjectMeta: metav1.ObjectMeta{Name: "p", DeletionTimestamp: new(metav1.Now())},
			Status:     status("p-1", metav1.ConditionFalse, message),
		}
	}
	p := func(s stowage.PavProvisionerStatus) *stowage.PavProvisioner {
		return &stowage.PavProvisioner{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: s}
	}
	accepted := p(status("p-1", metav1.ConditionTrue, ""))
	for name, tc := range map[string]struct {
		before any
		after  *stowage.PavProvisioner
		want   int // volumes that are enqueued
	}{
		"added":              {nil, accepted, 1},
		"the same":           {accepted, accepted.DeepCopy(), 0},
		"another revision":   {accepted, p(status("p-2", metav1.ConditionTrue, "")), 1},
		"no longer accepted": {accepted, p(status("p-1", metav1.ConditionFalse, "bad")), 1},
		"deleted":            {accepted, deleted("2 are left"), 1},
		"deleted, the number of its volumes only": {deleted("2 are left"), deleted("1 is left"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "ns")
			c.c.provisionerChanged(tc.before, tc.after)
			if got := c.c.queue.Len(); got != tc.want {
				t.Errorf("%d volumes are enqueued, want %d", got, tc.want)
			}
		})
	}
}
