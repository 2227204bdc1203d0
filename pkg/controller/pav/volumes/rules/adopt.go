// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/pav/podstep"
)

// adopts reports whether an administrator requests that the volume of another provisioner becomes one
// of this controller.
func (f *Facts) adopts() bool {
	return f.PV != nil && f.PV.Annotations[wellknown.PavAdoptAnnotation] == "true" && f.PV.Spec.ClaimRef != nil &&
		f.PV.Spec.ClaimRef.UID == f.Claim.UID && f.Claim.Spec.VolumeName == f.PV.Name && f.PV.Status.Phase == corev1.VolumeBound
}

// adopt decides about a claim whose PersistentVolume is to be adopted. Its PavVolume begins as
// Provisioned, with the claim, the class and the provisioner as they are, from which the volume is
// deleted.
func (f *Facts) adopt() Step {
	for _, check := range []func() *Refuse{f.refuseProvisioner, f.refuseClass, f.refuseClaim, f.refuseAdoption} {
		if refusal := check(); refusal != nil {
			return *refusal
		}
	}
	begin := Begin{
		Claim: f.Claim, Class: f.Class, Revision: f.Provisioner.Revision,
		Event: Event{Reason: Adopted, Message: "Adopted volume " + f.PV.Name, Normal: true},
	}
	if f.Volume != nil {
		begin.Status = *f.Volume.Status.DeepCopy()
	}
	capacity := f.PV.Spec.Capacity[corev1.ResourceStorage]
	s := &begin.Status
	s.Phase, s.RetryTime = stowage.PavVolumeProvisioned, nil
	s.Handle, s.Capacity = f.PV.Spec.CSI.VolumeHandle, &capacity
	s.VolumeUID, s.ReclaimPolicy = f.PV.UID, f.PV.Spec.PersistentVolumeReclaimPolicy
	return f.certain(begin)
}

// refuseAdoption returns why the PersistentVolume is not adopted: the deletion pod would not be that of
// its volume, or would not run where the volume is.
func (f *Facts) refuseAdoption() *Refuse {
	p, pv := f.Provisioner, f.PV
	switch csi := pv.Spec.CSI; {
	case csi == nil || csi.Driver != p.Name:
		return refuse(NotAdoptable, "spec.csi.driver of PersistentVolume %s is not %s", pv.Name, p.Name)
	case podstep.BadHandle(csi.VolumeHandle) != "":
		return refuse(NotAdoptable, "spec.csi.volumeHandle of PersistentVolume %s %s", pv.Name, podstep.BadHandle(csi.VolumeHandle))
	case !p.Access.Anywhere():
		return refuse(NotAdoptable, "spec.accessibility of PavProvisioner %s must be Anywhere: the node that PersistentVolume %s was created on is not known", p.Name, pv.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Class.Parameters)) {
		if value, ok := pv.Spec.CSI.VolumeAttributes[name]; !ok || value != f.Class.Parameters[name] {
			return refuse(NotAdoptable, "parameter %s of StorageClass %s is not the attribute of PersistentVolume %s: the volume was created with another class", name, f.Class.Name, pv.Name)
		}
	}
	return nil
}
