// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/pkg/testing/builders"
)

func TestBindClaim(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reserved *builders.PVC
		live     *builders.PVC // nil: not found
		want     *builders.PVC // nil: nothing to write
		why      plan.FailureCode
	}{
		"unbound: volumeName and both annotations": {
			live: claim(), want: claim().VolumeName("pv").BoundByController().BindCompleted(),
		},
		"updated since: written on the new version": {
			live: claim().ResourceVersion("8").Label("a", "b"),
			want: claim().ResourceVersion("8").Label("a", "b").VolumeName("pv").BoundByController().BindCompleted(),
		},
		"the user chose the same volume: not bound by a controller": {
			live: claim().VolumeName("pv"), want: claim().VolumeName("pv").BindCompleted(),
		},
		"the PV controller was first":        {live: claim().Bound("pv")},
		"bound to another volume":            {live: claim().Bound("pv-2"), why: plan.ClaimBoundElsewhere},
		"the user chose another volume":      {live: claim().VolumeName("pv-2"), why: plan.ClaimBoundElsewhere},
		"deleted":                            {why: plan.ClaimGone},
		"deleted and recreated":              {live: claim().UID("new"), why: plan.ClaimReplaced},
		"being deleted":                      {live: claim().Deleting(), why: plan.ClaimDeleting},
		"bound to the volume, being deleted": {live: claim().Bound("pv").Deleting()},
		"lost":                               {live: claim().Phase(v1.ClaimLost), why: plan.ClaimLost},
		"requests more than was reserved":    {live: claim().Request("5Gi"), why: plan.ClaimChanged},
		"being provisioned elsewhere":        {live: claim().SelectedNode("n2"), why: plan.SelectedElsewhere},
		"selected-node named a missing node when it was reserved": {
			reserved: claim().SelectedNode("gone"), live: claim().SelectedNode("gone"),
			want: claim().SelectedNode("gone").VolumeName("pv").BoundByController().BindCompleted(),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := plan.Binding{Claim: claim().Obj(), Volume: volume().Obj()}
			if tc.reserved != nil {
				b.Claim = tc.reserved.Obj()
			}
			var live, before *v1.PersistentVolumeClaim
			if tc.live != nil {
				live, before = tc.live.Obj(), tc.live.Obj()
			}
			got, write, why := b.BindClaim(live)
			if code(why) != tc.why || write != (tc.want != nil) {
				t.Fatalf("got write %t, failure %v; want write %t, failure %q", write, why, tc.want != nil, tc.why)
			}
			if write {
				if diff := cmp.Diff(tc.want.Obj(), got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
			if diff := cmp.Diff(before, live); diff != "" {
				t.Errorf("the argument was changed:\n%s", diff)
			}
		})
	}
}

// TestClaimBoundIsWhatThePVControllerWrites expects what updateClaimStatus of the PV
// controller writes.
func TestClaimBoundIsWhatThePVControllerWrites(t *testing.T) {
	t.Parallel()
	size := func(s string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceStorage: resource.MustParse(s)}
	}
	gold := "gold"
	rwo := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	bound := v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: rwo, Capacity: size("10Gi")}
	tests := map[string]struct {
		volume *v1.PersistentVolume
		status v1.PersistentVolumeClaimStatus
		want   v1.PersistentVolumeClaimStatus
	}{
		"Pending": {
			volume: volume().Capacity("10Gi").Obj(),
			status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}, want: bound,
		},
		"Bound already": {volume: volume().Capacity("10Gi").Obj(), status: bound, want: bound},
		"marked Lost by mistake": {
			volume: volume().Capacity("10Gi").Obj(),
			status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimLost}, want: bound,
		},
		"Bound and being resized: the capacity belongs to the resizer": {
			volume: volume().Capacity("10Gi").Obj(),
			status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: rwo, Capacity: size("5Gi")},
			want:   v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: rwo, Capacity: size("5Gi")},
		},
		"Bound with other access modes": {
			volume: volume().AccessModes(v1.ReadWriteOnce, v1.ReadOnlyMany).Obj(),
			status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: rwo, Capacity: size("1Gi")},
			want: v1.PersistentVolumeClaimStatus{
				Phase: v1.ClaimBound, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany}, Capacity: size("1Gi"),
			},
		},
		"the file system is smaller than the volume": {
			volume: volume().Capacity("10Gi").Annotation(plan.AnnPreResizeCapacity, "4Gi").Obj(),
			status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
			want:   v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: rwo, Capacity: size("4Gi")},
		},
		"the pre-resize capacity is invalid": {
			volume: volume().Capacity("10Gi").Annotation(plan.AnnPreResizeCapacity, "much").Obj(),
			status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}, want: bound,
		},
		"attributes class": {
			volume: volume().Capacity("10Gi").AttributesClass("gold").Obj(),
			status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
			want: v1.PersistentVolumeClaimStatus{
				Phase: v1.ClaimBound, AccessModes: rwo, Capacity: size("10Gi"), CurrentVolumeAttributesClassName: &gold,
			},
		},
		"the attributes class of a Bound claim belongs to the resizer": {
			volume: volume().Capacity("10Gi").AttributesClass("gold").Obj(), status: bound, want: bound,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := claim().VolumeName("pv").BindCompleted().Obj()
			live.Status = *tc.status.DeepCopy()
			before := live.DeepCopy()
			got, write, why := plan.Binding{Claim: claim().Obj(), Volume: tc.volume}.ClaimBound(live, tc.volume)
			if why != nil {
				t.Fatal(why)
			}
			if wantWrite := cmp.Diff(tc.status, tc.want) != ""; write != wantWrite {
				t.Errorf("write = %t, want %t", write, wantWrite)
			}
			if diff := cmp.Diff(tc.want, got.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, live); diff != "" {
				t.Errorf("the argument was changed:\n%s", diff)
			}
		})
	}
}

func TestClaimBoundRefuses(t *testing.T) {
	t.Parallel()
	tests := map[plan.FailureCode]*v1.PersistentVolumeClaim{
		plan.ClaimGone:           nil,
		plan.ClaimReplaced:       claim().UID("new").Bound("pv").Obj(),
		plan.ClaimLost:           claim().BindCompleted().Obj(),
		plan.ClaimBoundElsewhere: claim().Bound("pv-2").Obj(),
	}
	for want, live := range tests {
		_, write, why := plan.Binding{Claim: claim().Obj(), Volume: volume().Obj()}.ClaimBound(live, volume().Obj())
		if write || code(why) != want {
			t.Errorf("got write %t, failure %v; want %q", write, why, want)
		}
	}
}

func TestSelectNode(t *testing.T) {
	t.Parallel()
	const csi = "csi.example.com"
	tests := map[string]struct {
		provisioner, gone string
		live              *builders.PVC
		want              *builders.PVC // nil: nothing to write
		why               plan.FailureCode
	}{
		"external: all three annotations in one write":     {provisioner: csi, live: claim(), want: claim().SelectedNode("n1").Provisioner(csi)},
		"in-tree: the PV controller names the provisioner": {live: claim(), want: claim().SelectedNode("n1")},
		"another provisioner is set":                       {provisioner: csi, live: claim().Provisioner("x"), want: claim().SelectedNode("n1").Provisioner(csi)},
		"already requested":                                {provisioner: csi, live: claim().SelectedNode("n1").Provisioner(csi)},
		"selected, no provisioner set":                     {provisioner: csi, live: claim().SelectedNode("n1"), want: claim().SelectedNode("n1").Provisioner(csi)},
		"already provisioned and bound":                    {provisioner: csi, live: claim().SelectedNode("n1").Bound("pv")},
		"another node is selected":                         {provisioner: csi, live: claim().SelectedNode("n2"), why: plan.SelectedElsewhere},
		"the selected node is gone: overwritten": {
			provisioner: csi, gone: "n2", live: claim().SelectedNode("n2").Provisioner(csi), want: claim().SelectedNode("n1").Provisioner(csi),
		},
		"one node is gone, another is selected by now": {provisioner: csi, gone: "n2", live: claim().SelectedNode("n3"), why: plan.SelectedElsewhere},
		"bound to another volume":                      {live: claim().Bound("pv"), why: plan.ClaimBoundElsewhere},
		"being deleted":                                {live: claim().Deleting(), why: plan.ClaimDeleting},
		"lost":                                         {live: claim().Phase(v1.ClaimLost), why: plan.ClaimLost},
		"recreated":                                    {live: claim().UID("new"), why: plan.ClaimReplaced},
		"deleted":                                      {why: plan.ClaimGone},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var live *v1.PersistentVolumeClaim
			if tc.live != nil {
				live = tc.live.Obj()
			}
			p := plan.Provision{Claim: claim().Obj(), Provisioner: tc.provisioner}
			got, write, why := p.SelectNode(live, "n1", tc.gone)
			if code(why) != tc.why || write != (tc.want != nil) {
				t.Fatalf("got write %t, failure %v; want write %t, failure %q", write, why, tc.want != nil, tc.why)
			}
			if write {
				if diff := cmp.Diff(tc.want.Obj(), got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

func TestUnselectNode(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reserved, written *builders.PVC
		want              *builders.PVC // nil: selected-node must stay
	}{
		"no provisioner is set":            {reserved: claim(), written: claim().Label("a", "b").SelectedNode("n1"), want: claim().Label("a", "b")},
		"a former selected node":           {reserved: claim().SelectedNode("old"), written: claim().SelectedNode("n1"), want: claim().SelectedNode("old")},
		"the provisioner may have started": {reserved: claim(), written: claim().SelectedNode("n1").Provisioner("csi")},
		"the beta annotation is set":       {reserved: claim(), written: claim().SelectedNode("n1").Annotation(plan.AnnBetaStorageProvisioner, "csi")},
		"the provisioner was set before":   {reserved: claim().Provisioner("csi"), written: claim().SelectedNode("n1").Provisioner("csi")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := plan.Provision{Claim: tc.reserved.Obj()}.UnselectNode(tc.written.Obj())
			if ok != (tc.want != nil) {
				t.Fatalf("ok = %t", ok)
			}
			if !ok {
				return
			}
			if diff := cmp.Diff(tc.want.Obj(), got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
