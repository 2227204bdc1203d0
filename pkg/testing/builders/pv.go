// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// PV builds a PersistentVolume.
type PV struct {
	builder[*v1.PersistentVolume, *PV]
}

// MakePV starts an Available, ReadWriteOnce local volume of 1Gi without a
// class and without node affinity.
func MakePV(name string) *PV {
	b := &PV{}
	return b.begin(b, &v1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			Capacity:                      v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: v1.PersistentVolumeSource{
				Local: &v1.LocalVolumeSource{Path: "/mnt/disks/" + name},
			},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	})
}

// Class sets spec.storageClassName.
func (b *PV) Class(name string) *PV { b.object.Spec.StorageClassName = name; return b }

// BetaClass sets the beta class annotation, which wins over the spec.
func (b *PV) BetaClass(name string) *PV { return b.Annotation(v1.BetaStorageClassAnnotation, name) }

// Capacity sets the storage capacity, such as "10Gi".
func (b *PV) Capacity(quantity string) *PV {
	b.object.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(quantity)}
	return b
}

// AccessModes replaces the access modes.
func (b *PV) AccessModes(modes ...v1.PersistentVolumeAccessMode) *PV {
	b.object.Spec.AccessModes = slices.Clone(modes)
	return b
}

// VolumeMode sets spec.volumeMode; without it the field is nil.
func (b *PV) VolumeMode(mode v1.PersistentVolumeMode) *PV { b.object.Spec.VolumeMode = &mode; return b }

// Block sets spec.volumeMode to Block.
func (b *PV) Block() *PV { return b.VolumeMode(v1.PersistentVolumeBlock) }

// AttributesClass sets spec.volumeAttributesClassName.
func (b *PV) AttributesClass(name string) *PV {
	b.object.Spec.VolumeAttributesClassName = &name
	return b
}

// ClaimRef binds or pre-binds the volume to a claim; uid may be empty.
func (b *PV) ClaimRef(namespace, name, uid string) *PV {
	b.object.Spec.ClaimRef = &v1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim",
		Namespace: namespace, Name: name, UID: types.UID(uid),
	}
	return b
}

// BoundByController marks the claimRef as the PV controller's or a
// scheduler's, as opposed to a user's.
func (b *PV) BoundByController() *PV { return b.Annotation(volume.AnnBoundByController, "yes") }

// ProvisionedBy names the provisioner that made the volume.
func (b *PV) ProvisionedBy(provisioner string) *PV {
	return b.Annotation(volume.AnnDynamicallyProvisioned, provisioner)
}

// Phase sets status.phase.
func (b *PV) Phase(phase v1.PersistentVolumePhase) *PV { b.object.Status.Phase = phase; return b }

// Deleting marks the volume as being deleted, held by a finalizer.
func (b *PV) Deleting() *PV {
	b.object.DeletionTimestamp = deletedAt.DeepCopy()
	b.object.Finalizers = []string{"kubernetes.io/pv-protection"}
	return b
}

// ReclaimPolicy sets spec.persistentVolumeReclaimPolicy.
func (b *PV) ReclaimPolicy(p v1.PersistentVolumeReclaimPolicy) *PV {
	b.object.Spec.PersistentVolumeReclaimPolicy = p
	return b
}

// CSI replaces the volume source by a CSI volume.
func (b *PV) CSI(driver, handle string) *PV {
	return b.Source(v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}})
}

// Source replaces the volume source.
func (b *PV) Source(source v1.PersistentVolumeSource) *PV {
	b.object.Spec.PersistentVolumeSource = *source.DeepCopy()
	return b
}

// Hostname lets only nodes with one of these hostname labels use the volume.
// Hostname, Zone, NodeName and Affinity each replace the whole node affinity.
func (b *PV) Hostname(names ...string) *PV { return b.Affinity(Term(In(v1.LabelHostname, names...))) }

// Zone lets only nodes of one of these zones use the volume.
func (b *PV) Zone(zones ...string) *PV { return b.Affinity(Term(In(v1.LabelTopologyZone, zones...))) }

// NodeName lets only the nodes of these names use the volume, by matchFields.
func (b *PV) NodeName(names ...string) *PV {
	return b.Affinity(FieldTerm(In(metav1.ObjectNameField, names...)))
}

// Affinity sets the required node affinity to these terms, ORed.
func (b *PV) Affinity(terms ...v1.NodeSelectorTerm) *PV {
	b.object.Spec.NodeAffinity = &v1.VolumeNodeAffinity{
		Required: &v1.NodeSelector{NodeSelectorTerms: slices.Clone(terms)},
	}
	return b
}
