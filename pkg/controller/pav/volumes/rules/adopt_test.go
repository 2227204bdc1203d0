// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
)

// adoptable is a claim that is bound to a PersistentVolume of another provisioner, which is annotated.
func adoptable(changes ...func(*corev1.PersistentVolume)) change {
	return func(f *rules.Facts) {
		f.Claim.Spec.VolumeName = volumeName
		pv(corev1.VolumeBound, append([]func(*corev1.PersistentVolume){func(v *corev1.PersistentVolume) {
			v.Annotations = map[string]string{wellknown.PavAdoptAnnotation: "true"}
			v.Finalizers = nil
			v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
			v.Spec.CSI.VolumeAttributes = map[string]string{"size": "big", "storage.kubernetes.io/csiProvisionerIdentity": "1-p"}
		}}, changes...)...)(f)
	}
}

func TestAdoption(t *testing.T) {
	t.Parallel()
	decide(t, map[string]decision{
		"an annotated volume":                  {facts(adoptable()), "Begin Provisioned by p-1 on "},
		"a cached volume is read first":        {facts(adoptable(), cached), "Read"},
		"the validation is not repeated":       {facts(adoptable(), func(f *rules.Facts) { f.Evaluated.Problem = "line 1" }), "Begin Provisioned by p-1 on "},
		"the claim is being deleted":           {facts(adoptable(), deletingClaim), "Begin Provisioned by p-1 on "},
		"its status was not written":           {facts(adoptable(), volume("")), "Begin Provisioned by p-1 on "},
		"it is adopted":                        {facts(adoptable(), volume(stowage.PavVolumeProvisioned, func(v *stowage.PavVolume) { v.Spec.NodeName = "" })), "AddPVFinalizer"},
		"the annotation is another one":        {facts(adoptable(func(v *corev1.PersistentVolume) { v.Annotations[wellknown.PavAdoptAnnotation] = "no" })), "None"},
		"the volume is of another claim":       {facts(adoptable(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "other" })), "None"},
		"the volume is released":               {facts(adoptable(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased })), "None"},
		"the claim names another volume":       {facts(adoptable(), func(f *rules.Facts) { f.Claim.Spec.VolumeName = "other" }), "None"},
		"the claim is gone":                    {facts(adoptable(), noClaim), "None"},
		"the provisioner is not validated yet": {facts(adoptable(), func(f *rules.Facts) { f.Provisioner.Revision = "" }), "None"},
		"the provisioner is not accepted":      {facts(adoptable(), func(f *rules.Facts) { f.Provisioner.Problem = "bad" }), "Refuse ProvisionerNotAccepted"},
		"the provisioner is static only":       {facts(adoptable(), func(f *rules.Facts) { f.Provisioner.Dynamic = false }), "Refuse ProvisionerNotAccepted"},
		"the class is gone":                    {facts(adoptable(), func(f *rules.Facts) { f.Class = nil }), "Refuse StorageClassUnsuitable"},
		"the class was replaced":               {facts(adoptable(func(v *corev1.PersistentVolume) { v.Spec.CSI.VolumeAttributes["size"] = "small" })), "Refuse VolumeNotAdoptable"},
		"the class got a parameter":            {facts(adoptable(func(v *corev1.PersistentVolume) { delete(v.Spec.CSI.VolumeAttributes, "size") })), "Refuse VolumeNotAdoptable"},
		"the volume is of another driver":      {facts(adoptable(func(v *corev1.PersistentVolume) { v.Spec.CSI.Driver = "q" })), "Refuse VolumeNotAdoptable"},
		"the volume has no driver":             {facts(adoptable(func(v *corev1.PersistentVolume) { v.Spec.CSI = nil })), "Refuse VolumeNotAdoptable"},
		"the handle is invalid":                {facts(adoptable(func(v *corev1.PersistentVolume) { v.Spec.CSI.VolumeHandle = "a^b" })), "Refuse VolumeNotAdoptable"},
		"volumes are on the selected node":     {facts(adoptable(), func(f *rules.Facts) { f.Provisioner.Access.SelectedNode = true }), "Refuse VolumeNotAdoptable"},
		"volumes are in a zone":                {facts(adoptable(), func(f *rules.Facts) { f.Provisioner.Access.TopologyKeys = []string{"zone"} }), "Refuse VolumeNotAdoptable"},
	})
	begin, ok := rules.Decide(facts(adoptable(retain))).(rules.Begin)
	if !ok {
		t.Fatal("a retained volume is not adopted")
	}
	want := stowage.PavVolumeStatus{
		Phase: stowage.PavVolumeProvisioned, Handle: "h", Capacity: new(resource.MustParse("1Gi")),
		VolumeUID: "pv-uid", ReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
	}
	if diff := cmp.Diff(want, begin.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}
