// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/diskreports"

	"stowage.dev/stowage/test/integration/node"
)

// TestManyEntries: entries that exceed one page of the report are in the next,
// volumes first; unused pages are emptied.
func TestManyEntries(t *testing.T) {
	const skipped = 600
	n := newNode(t)
	for i := range skipped {
		if err := os.Mkdir(n.PathOf(n.Files, fmt.Sprintf("dir-%03d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.Tmpfs("zzz", "1m")
	n.Start()
	n.WaitPhase(n.Files, "zzz", corev1.VolumeAvailable)
	first := n.WaitPage(1, "full, with the volume first", func(r *stowage.LocalDiskReport) bool {
		entries := r.Status.Entries
		return len(entries) == stowage.MaxEntries && entries[0].Name == "zzz" && entries[0].State == stowage.EntryAvailable
	})
	if s := first.Status.Summary; s == nil || s.Skipped != skipped || s.Volumes != 1 || first.Status.Truncated != 0 {
		t.Errorf("the summary is %+v and %d entries are left out, want %d skipped and 1 volume", s, first.Status.Truncated, skipped)
	}
	second := n.WaitPage(2, "the rest", func(r *stowage.LocalDiskReport) bool {
		return len(r.Status.Entries) == skipped+1-stowage.MaxEntries
	})
	if second.Spec.NodeName != n.Name || second.Spec.Page != 2 || second.Status.Summary != nil {
		t.Errorf("the second page is %d of node %s, with summary %v", second.Spec.Page, second.Spec.NodeName, second.Status.Summary)
	}
	names := map[string]bool{}
	for _, entry := range append(first.Status.Entries, second.Status.Entries...) {
		if names[entry.Name] {
			t.Errorf("%s is duplicated", entry.Name)
		}
		names[entry.Name] = true
		if entry.Name != "zzz" && (entry.State != stowage.EntrySkipped || entry.Reason != "NotMountPoint" || entry.Message == "") {
			t.Errorf("%s is %s %s: %q", entry.Name, entry.State, entry.Reason, entry.Message)
		}
	}

	for i := range skipped {
		if err := os.Remove(n.PathOf(n.Files, fmt.Sprintf("dir-%03d", i))); err != nil {
			t.Fatal(err)
		}
	}
	n.WaitPage(2, "empty", func(r *stowage.LocalDiskReport) bool { return len(r.Status.Entries) == 0 })
	n.WaitPage(1, "one volume", func(r *stowage.LocalDiskReport) bool {
		return len(r.Status.Entries) == 1 && r.Status.Summary.Skipped == 0
	})
}

// TestReportOfProvisioner: the conditions of the provisioner, what its volumes offer, and its
// heartbeat, under the rights and policies of the manifests.
func TestReportOfProvisioner(t *testing.T) {
	n := newNode(t)
	n.Tmpfs("disk1", "1m")
	n.Start()
	pv := n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
	if !strings.HasPrefix(pv.Name, "local-pv-"+n.Name+"-") || pv.Labels[wellknown.NodeNameLabel] != n.Name {
		t.Errorf("volume %s has labels %v, want node %s in both", pv.Name, pv.Labels, n.Name)
	}
	n.WaitPage(1, "all conditions True, and one volume free", func(r *stowage.LocalDiskReport) bool {
		for _, condition := range []string{stowage.ConditionReady, stowage.ConditionDisksHealthy, stowage.ConditionConfigValid} {
			if c := meta.FindStatusCondition(r.Status.Conditions, condition); c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != r.Generation {
				return false
			}
		}
		return r.Status.Summary.Free.Equal(pv.Spec.Capacity[corev1.ResourceStorage]) && r.Status.Summary.Capacity.Equal(r.Status.Summary.Free)
	})
	lease, err := n.Env.Client.CoordinationV1().Leases(diskreports.HeartbeatNamespace).Get(n.Env.Context(), n.Name, metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != n.Name || lease.OwnerReferences[0].Name != n.Name {
		t.Errorf("the Lease is %+v, %v", lease, err)
	}
	n.WaitAnswer("/readyz", "ok", func(a node.Answer) bool { return a.Status == 200 })
}
