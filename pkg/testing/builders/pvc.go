// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

// PVC builds a PersistentVolumeClaim.
type PVC struct {
	builder[*v1.PersistentVolumeClaim, *PVC]
}

// MakePVC starts a Pending, ReadWriteOnce claim for 1Gi without a class, in
// DefaultNamespace.
func MakePVC(name string) *PVC {
	b := &PVC{}
	return b.begin(b, &v1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	})
}

// Class sets spec.storageClassName; without it the field is nil.
func (b *PVC) Class(name string) *PVC { b.object.Spec.StorageClassName = &name; return b }

// BetaClass sets the beta class annotation, which wins over the spec.
func (b *PVC) BetaClass(name string) *PVC { return b.Annotation(v1.BetaStorageClassAnnotation, name) }

// Request sets the storage request, such as "10Gi".
func (b *PVC) Request(quantity string) *PVC {
	b.object.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(quantity)}
	return b
}

// NoRequest removes the storage request.
func (b *PVC) NoRequest() *PVC { b.object.Spec.Resources.Requests = nil; return b }

// AccessModes replaces the access modes.
func (b *PVC) AccessModes(modes ...v1.PersistentVolumeAccessMode) *PVC {
	b.object.Spec.AccessModes = slices.Clone(modes)
	return b
}

// VolumeMode sets spec.volumeMode; without it the field is nil.
func (b *PVC) VolumeMode(mode v1.PersistentVolumeMode) *PVC {
	b.object.Spec.VolumeMode = &mode
	return b
}

// Block sets spec.volumeMode to Block.
func (b *PVC) Block() *PVC { return b.VolumeMode(v1.PersistentVolumeBlock) }

// AttributesClass sets spec.volumeAttributesClassName.
func (b *PVC) AttributesClass(name string) *PVC {
	b.object.Spec.VolumeAttributesClassName = &name
	return b
}

// Selector sets the label selector as it is, nil included.
func (b *PVC) Selector(selector *metav1.LabelSelector) *PVC {
	b.object.Spec.Selector = selector.DeepCopy()
	return b
}

// MatchLabel adds one label to the selector's matchLabels.
func (b *PVC) MatchLabel(key, value string) *PVC {
	metav1.AddLabelToSelector(b.selector(), key, value)
	return b
}

// MatchExpression adds one requirement to the selector's matchExpressions.
func (b *PVC) MatchExpression(key string, op metav1.LabelSelectorOperator, values ...string) *PVC {
	b.selector().MatchExpressions = append(b.selector().MatchExpressions,
		metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: slices.Clone(values)})
	return b
}

func (b *PVC) selector() *metav1.LabelSelector {
	if b.object.Spec.Selector == nil {
		b.object.Spec.Selector = &metav1.LabelSelector{}
	}
	return b.object.Spec.Selector
}

// VolumeName sets spec.volumeName; alone it makes a claim pre-bound by a user.
func (b *PVC) VolumeName(name string) *PVC { b.object.Spec.VolumeName = name; return b }

// BindCompleted adds the annotation that the binding has been completed.
func (b *PVC) BindCompleted() *PVC { return b.Annotation(volume.AnnBindCompleted, "yes") }

// BoundByController marks the volume name as the PV controller's or a
// scheduler's choice, as opposed to a user's.
func (b *PVC) BoundByController() *PVC { return b.Annotation(volume.AnnBoundByController, "yes") }

// Bound makes the claim fully bound to a volume, as the PV controller would.
func (b *PVC) Bound(volume string) *PVC {
	return b.VolumeName(volume).BindCompleted().BoundByController().Phase(v1.ClaimBound)
}

// SelectedNode selects the node that the claim's volume is provisioned for.
func (b *PVC) SelectedNode(node string) *PVC { return b.Annotation(volume.AnnSelectedNode, node) }

// Provisioner adds both annotations that name the storage provisioner.
func (b *PVC) Provisioner(name string) *PVC {
	return b.Annotation(volume.AnnStorageProvisioner, name).Annotation(volume.AnnBetaStorageProvisioner, name)
}

// Phase sets status.phase.
func (b *PVC) Phase(phase v1.PersistentVolumeClaimPhase) *PVC {
	b.object.Status.Phase = phase
	return b
}

// Deleting marks the claim as being deleted, held by a finalizer.
func (b *PVC) Deleting() *PVC {
	b.object.DeletionTimestamp = deletedAt.DeepCopy()
	b.object.Finalizers = []string{"kubernetes.io/pvc-protection"}
	return b
}

// OwnedBy makes the pod the claim's controller, as a generic ephemeral
// volume's claim has it.
func (b *PVC) OwnedBy(pod *v1.Pod) *PVC {
	b.object.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod")),
	}
	return b
}
