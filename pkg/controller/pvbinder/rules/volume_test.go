// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/controller/pvbinder/rules"
	"stowage.dev/stowage/pkg/testing/builders"
)

func about(reason, text string) []rules.Event {
	return []rules.Event{{OnVolume: true, Warning: true, Reason: reason, Note: text}}
}

// TestVolumes: the phase of a volume by its claimRef and its claim.
func TestVolumes(t *testing.T) {
	t.Parallel()
	const ebs = "kubernetes.io/aws-ebs"
	dynamic := func(phase v1.PersistentVolumePhase) *builders.PV {
		return claimed(phase).ProvisionedBy("csi.example.com").ReclaimPolicy(v1.PersistentVolumeReclaimDelete)
	}
	phase := func(pv *builders.PV, events ...rules.Event) rules.Decision {
		return rules.Decision{Do: rules.WriteVolumeStatus, Volume: pv.Obj(), Events: events}
	}
	none := rules.Decision{Do: rules.None}
	tests := map[string]struct {
		facts rules.VolumeFacts
		want  rules.Decision
	}{
		"new":                            {rules.VolumeFacts{Volume: volume().Phase(v1.VolumePending).Obj()}, phase(volume())},
		"Available":                      {rules.VolumeFacts{Volume: volume().Obj()}, none},
		"Released, and claimRef removed": {rules.VolumeFacts{Volume: volume().Phase(v1.VolumeReleased).Obj()}, phase(volume())},
		"Failed, and claimRef removed":   {rules.VolumeFacts{Volume: volume().Phase(v1.VolumeFailed).Obj()}, phase(volume())},
		"reserved by name":               {rules.VolumeFacts{Volume: volume().ClaimRef("default", "data", "").Phase(v1.VolumePending).Obj()}, phase(volume().ClaimRef("default", "data", ""))},
		"reserved by name for a claim":   {rules.VolumeFacts{Volume: volume().ClaimRef("default", "data", "").Obj(), Claim: claim().Obj()}, none},
		"claimRef of a bound claim removed: never Available": {
			rules.VolumeFacts{Volume: volume().Phase(v1.VolumeBound).Obj(), Bound: bound().Obj()},
			rules.Decision{Do: rules.DecideOnClaim, Claim: bound().Obj()},
		},
		"UID of a bound claim removed: never Available": {
			rules.VolumeFacts{Volume: volume().ClaimRef("default", "data", "").Phase(v1.VolumeBound).Obj(), Claim: bound().Obj(), Bound: bound().Obj()},
			rules.Decision{Do: rules.DecideOnClaim, Claim: bound().Obj()},
		},
		"reserved by name for another claim than the bound one": {
			rules.VolumeFacts{Volume: volume().ClaimRef("default", "other", "").Phase(v1.VolumeBound).Obj(), Bound: bound().Obj()},
			phase(volume().ClaimRef("default", "other", "")),
		},
		"its claim has no volume yet": {
			rules.VolumeFacts{Volume: claimed(v1.VolumePending).Obj(), Claim: claim().Obj()},
			rules.Decision{Do: rules.DecideOnClaim, Claim: claim().Obj()},
		},
		"its claim has no volume yet, and another mode": {
			rules.VolumeFacts{Volume: claimed(v1.VolumeAvailable).Obj(), Claim: claim().Block().Obj()},
			rules.Decision{Do: rules.DecideOnClaim, Claim: claim().Block().Obj(), Events: about("VolumeMismatch", `Cannot bind PersistentVolume to requested PersistentVolumeClaim "default/data": incompatible volumeMode`)},
		},
		"its claim names it":                     {rules.VolumeFacts{Volume: claimed(v1.VolumeAvailable).Obj(), Claim: bound().Obj()}, phase(claimed(v1.VolumeBound))},
		"Bound":                                  {rules.VolumeFacts{Volume: claimed(v1.VolumeBound).Obj(), Claim: bound().Obj()}, none},
		"Released by mistake":                    {rules.VolumeFacts{Volume: claimed(v1.VolumeReleased).Obj(), Claim: bound().Obj()}, phase(claimed(v1.VolumeBound))},
		"its claim is not in the cache: read it": {rules.VolumeFacts{Volume: claimed(v1.VolumeBound).Obj()}, rules.Decision{Do: rules.ReadClaim}},
		"a later claim of the name is in the cache: read it": {
			rules.VolumeFacts{Volume: claimed(v1.VolumeBound).Obj(), Claim: claim().UID("new").Obj()}, rules.Decision{Do: rules.ReadClaim},
		},
		"its claim does not exist":       {rules.VolumeFacts{Volume: claimed(v1.VolumeBound).Obj(), ClaimRead: true}, phase(claimed(v1.VolumeReleased))},
		"its claim was replaced":         {rules.VolumeFacts{Volume: claimed(v1.VolumeBound).Obj(), Claim: claim().UID("new").Obj(), ClaimRead: true}, phase(claimed(v1.VolumeReleased))},
		"Released, retained":             {rules.VolumeFacts{Volume: claimed(v1.VolumeReleased).Obj()}, none},
		"Released, its provisioner acts": {rules.VolumeFacts{Volume: dynamic(v1.VolumeReleased).Obj()}, none},
		"Failed, its provisioner acts":   {rules.VolumeFacts{Volume: dynamic(v1.VolumeFailed).Obj()}, none},
		"Released, a static CSI volume":  {rules.VolumeFacts{Volume: claimed(v1.VolumeReleased).CSI("d", "h").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).Obj()}, none},
		"Released, and nothing deletes it": {
			rules.VolumeFacts{Volume: claimed(v1.VolumeReleased).ReclaimPolicy(v1.PersistentVolumeReclaimDelete).Obj()},
			rules.Decision{Do: rules.None, Events: about("VolumeFailedDelete", "reclaim policy is Delete and no external provisioner is in charge of the volume: delete its storage and then the volume")},
		},
		"Released, of an in-tree plugin": {
			rules.VolumeFacts{Volume: claimed(v1.VolumeReleased).ProvisionedBy("kubernetes.io/else").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).Obj()},
			rules.Decision{Do: rules.None, Events: about("VolumeFailedDelete", "reclaim policy is Delete and no external provisioner is in charge of the volume: delete its storage and then the volume")},
		},
		"Released, Recycle": {
			rules.VolumeFacts{Volume: claimed(v1.VolumeReleased).ReclaimPolicy(v1.PersistentVolumeReclaimRecycle).Obj()},
			phase(claimed(v1.VolumeFailed).ReclaimPolicy(v1.PersistentVolumeReclaimRecycle), about("VolumeFailedRecycle",
				"reclaim policy Recycle is not supported: delete the volume, or clean it and remove its claimRef to make it available")...),
		},
		"its claim has another volume: unbound": {
			rules.VolumeFacts{Volume: claimed(v1.VolumeAvailable).Obj(), Claim: bound().VolumeName("pv-2").Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().Change(func(v *v1.PersistentVolume) { v.Annotations = map[string]string{} }).Obj()},
		},
		"its claim has another volume: still reserved by its owner": {
			rules.VolumeFacts{Volume: volume().ClaimRef("default", "data", "claim-uid").Obj(), Claim: bound().VolumeName("pv-2").Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ClaimRef("default", "data", "").Obj()},
		},
		"its claim has another volume: a provisioned one is deleted": {
			rules.VolumeFacts{Volume: dynamic(v1.VolumeBound).Obj(), Claim: bound().VolumeName("pv-2").Obj()}, phase(dynamic(v1.VolumeReleased)),
		},
		"its claim has another volume: a static one is unbound, whatever the policy": {
			rules.VolumeFacts{Volume: volume().ReclaimPolicy(v1.PersistentVolumeReclaimDelete).ClaimRef("default", "data", "claim-uid").Obj(), Claim: bound().VolumeName("pv-2").Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ReclaimPolicy(v1.PersistentVolumeReclaimDelete).ClaimRef("default", "data", "").Obj()},
		},
		"its claim has another volume: a provisioned one that is retained is unbound": {
			rules.VolumeFacts{Volume: volume().ProvisionedBy("csi.example.com").ClaimRef("default", "data", "claim-uid").Obj(), Claim: bound().VolumeName("pv-2").Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ProvisionedBy("csi.example.com").ClaimRef("default", "data", "").Obj()},
		},
		"migration: annotation, and the plugin's finalizer removed": {
			rules.VolumeFacts{Volume: volume().ProvisionedBy(ebs).Change(finalizers("a", "kubernetes.io/pv-controller")).Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ProvisionedBy(ebs).Annotation("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com").Change(finalizers("a")).Obj()},
		},
		"migration: annotation alone": {
			rules.VolumeFacts{Volume: volume().ProvisionedBy(ebs).Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ProvisionedBy(ebs).Annotation("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com").Obj()},
		},
		"migration: the plugin's finalizer alone": {
			rules.VolumeFacts{Volume: volume().ProvisionedBy(ebs).Annotation("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com").Change(finalizers("kubernetes.io/pv-controller")).Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ProvisionedBy(ebs).Annotation("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com").Change(finalizers()).Obj()},
		},
		"a plugin that is not migrated, policy Delete: its finalizer stays": {
			rules.VolumeFacts{Volume: volume().ProvisionedBy("kubernetes.io/else").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).Change(finalizers("kubernetes.io/pv-controller")).Obj()}, none,
		},
		"finalizers of a volume of a driver stay": {
			rules.VolumeFacts{Volume: volume().ProvisionedBy("csi.example.com").Change(finalizers("kubernetes.io/pv-controller", "external-provisioner.volume.kubernetes.io/finalizer")).Obj()}, none,
		},
		"migration: done": {
			rules.VolumeFacts{Volume: volume().ProvisionedBy(ebs).Annotation("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com").Change(finalizers("external-provisioner.volume.kubernetes.io/finalizer")).Obj()}, none,
		},
		"migration: undone": {
			rules.VolumeFacts{Volume: volume().ProvisionedBy("kubernetes.io/else").Annotation("pv.kubernetes.io/migrated-to", "d").Change(finalizers("external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-controller")).Obj()},
			rules.Decision{Do: rules.WriteVolume, Volume: volume().ProvisionedBy("kubernetes.io/else").Change(finalizers()).Obj()},
		},
		"migration: a Released volume of a plugin is its driver's": {
			rules.VolumeFacts{Volume: claimed(v1.VolumeReleased).ProvisionedBy(ebs).Annotation("pv.kubernetes.io/migrated-to", "ebs.csi.aws.com").ReclaimPolicy(v1.PersistentVolumeReclaimDelete).Obj()}, none,
		},
		"finalizers of a static volume stay": {
			rules.VolumeFacts{Volume: volume().Change(finalizers("kubernetes.io/pv-controller")).Obj()}, none,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := tc.facts
			f.Drivers = drivers
			before := f.Volume.DeepCopy()
			got := rules.DecideVolume(&f)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, f.Volume); diff != "" {
				t.Errorf("the argument was changed:\n%s", diff)
			}
		})
	}
}

func finalizers(names ...string) func(*v1.PersistentVolume) {
	return func(v *v1.PersistentVolume) { v.Finalizers = append([]string{}, names...) }
}

// TestOtherWriter: only a new entry of another manager counts, and only with a phase that PV
// controllers alone write.
func TestOtherWriter(t *testing.T) {
	t.Parallel()
	entry := func(manager, subresource, fields string, second int64) metav1.ManagedFieldsEntry {
		e := metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: new(metav1.Unix(second, 0)), FieldsV1: &metav1.FieldsV1{}}
		if err := e.FieldsV1.UnmarshalJSON([]byte(fields)); err != nil {
			t.Fatal(err)
		}
		return e
	}
	const phase = `{"f:status":{"f:phase":{}}}`
	earlier := []metav1.ManagedFieldsEntry{entry("kube-controller-manager", "status", phase, 1), entry("stowage-controller", "status", phase, 2)}
	for name, tc := range map[string]struct {
		phase v1.PersistentVolumePhase
		after []metav1.ManagedFieldsEntry
		want  string
	}{
		"nothing new":                 {v1.VolumeAvailable, earlier, ""},
		"own":                         {v1.VolumeAvailable, []metav1.ManagedFieldsEntry{entry("stowage-controller", "status", phase, 3)}, ""},
		"another made it Available":   {v1.VolumeAvailable, append(earlier[1:2:2], entry("kube-controller-manager", "status", phase, 3)), "kube-controller-manager"},
		"another made it Released":    {v1.VolumeReleased, []metav1.ManagedFieldsEntry{entry("kcm", "status", phase, 3)}, "kcm"},
		"another made it Failed":      {v1.VolumeFailed, []metav1.ManagedFieldsEntry{entry("kcm", "status", phase, 3)}, "kcm"},
		"a scheduler made it Bound":   {v1.VolumeBound, []metav1.ManagedFieldsEntry{entry("stowage-scheduler", "status", phase, 3)}, ""},
		"another wrote a message":     {v1.VolumeAvailable, append(earlier[:2:2], entry("kubectl", "status", `{"f:status":{"f:message":{}}}`, 3)), ""},
		"another wrote not by status": {v1.VolumeAvailable, append(earlier[:2:2], entry("kubectl", "", phase, 3)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := volume().Obj(), volume().Phase(tc.phase).Obj()
			before.ManagedFields, after.ManagedFields = rules.PhaseWriters(rules.PhaseWriters(earlier)), rules.PhaseWriters(tc.after)
			if got := rules.OtherWriter(before, after, "stowage-controller"); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
