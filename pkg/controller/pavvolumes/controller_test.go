// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
