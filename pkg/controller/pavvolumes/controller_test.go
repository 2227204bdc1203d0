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
