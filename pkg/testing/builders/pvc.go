// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PVC builds a PersistentVolumeClaim.
type PVC struct{ pvc v1.PersistentVolumeClaim }

// MakePVC starts a Pending, ReadWriteOnce claim for 1Gi without a class, in
// DefaultNamespace.
func MakePVC(name string) *PVC {
	return &PVC{v1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}}
}

// Obj returns a copy of what was built.
func (b *PVC) Obj() *v1.PersistentVolumeClaim { return b.pvc.DeepCopy() }

// Name sets metadata.name, to use the builder as a template.
func (b *PVC) Name(name string) *PVC { b.pvc.Name = name; return b }

// Namespace sets metadata.namespace.
func (b *PVC) Namespace(namespace string) *PVC { b.pvc.Namespace = namespace; return b }

// UID sets metadata.uid.
func (b *PVC) UID(uid string) *PVC { b.pvc.UID = types.UID(uid); return b }

// ResourceVersion sets metadata.resourceVersion.
func (b *PVC) ResourceVersion(rv string) *PVC { b.pvc.ResourceVersion = rv; return b }

// Label adds one label.
func (b *PVC) Label(key, value string) *PVC { set(&b.pvc.Labels, key, value); return b }

// Annotation adds one annotation.
func (b *PVC) Annotation(key, value string) *PVC { set(&b.pvc.Annotations, key, value); return b }

// Class sets spec.storageClassName; without it the field is nil.
func (b *PVC) Class(name string) *PVC { b.pvc.Spec.StorageClassName = &name; return b }

// BetaClass sets the beta class annotation, which wins over the spec.
func (b *PVC) BetaClass(name string) *PVC { return b.Annotation(annBetaClass, name) }

// Request sets the storage request, such as "10Gi".
func (b *PVC) Request(quantity string) *PVC {
	b.pvc.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse(quantity)}
	return b
}

// NoRequest removes the storage request.
func (b *PVC) NoRequest() *PVC { b.pvc.Spec.Resources.Requests = nil; return b }

// AccessModes replaces the access modes.
func (b *PVC) AccessModes(modes ...v1.PersistentVolumeAccessMode) *PVC {
	b.pvc.Spec.AccessModes = slices.Clone(modes)
	return b
}

// VolumeMode sets spec.volumeMode; without it the field is nil.
func (b *PVC) VolumeMode(mode v1.PersistentVolumeMode) *PVC { b.pvc.Spec.VolumeMode = &mode; return b }

// Block sets spec.volumeMode to Block.
func (b *PVC) Block() *PVC { return b.VolumeMode(v1.PersistentVolumeBlock) }

// AttributesClass sets spec.volumeAttributesClassName.
func (b *PVC) AttributesClass(name string) *PVC {
	b.pvc.Spec.VolumeAttributesClassName = &name
	return b
}

// Selector sets the label selector as it is, nil included.
func (b *PVC) Selector(selector *metav1.LabelSelector) *PVC {
	b.pvc.Spec.Selector = selector.DeepCopy()
	return b
}

// MatchLabel adds one label to the selector's matchLabels.
func (b *PVC) MatchLabel(key, value string) *PVC {
	if b.pvc.Spec.Selector == nil {
		b.pvc.Spec.Selector = &metav1.LabelSelector{}
	}
	set(&b.pvc.Spec.Selector.MatchLabels, key, value)
	return b
}

// MatchExpression adds one requirement to the selector's matchExpressions.
func (b *PVC) MatchExpression(key string, op metav1.LabelSelectorOperator, values ...string) *PVC {
	if b.pvc.Spec.Selector == nil {
		b.pvc.Spec.Selector = &metav1.LabelSelector{}
	}
	b.pvc.Spec.Selector.MatchExpressions = append(b.pvc.Spec.Selector.MatchExpressions,
		metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: slices.Clone(values)})
	return b
}

// VolumeName sets spec.volumeName; alone it makes a claim pre-bound by a user.
func (b *PVC) VolumeName(name string) *PVC { b.pvc.Spec.VolumeName = name; return b }

// BindCompleted adds the annotation that the binding has been completed.
func (b *PVC) BindCompleted() *PVC { return b.Annotation(annBindCompleted, "yes") }

// BoundByController marks the volume name as the PV controller's or a
// scheduler's choice, as opposed to a user's.
func (b *PVC) BoundByController() *PVC { return b.Annotation(annBoundByController, "yes") }

// Bound makes the claim fully bound to a volume, as the PV controller would.
func (b *PVC) Bound(volume string) *PVC {
	return b.VolumeName(volume).BindCompleted().BoundByController().Phase(v1.ClaimBound)
}

// SelectedNode selects the node that the claim's volume is provisioned for.
func (b *PVC) SelectedNode(node string) *PVC { return b.Annotation(annSelectedNode, node) }

// Provisioner adds both annotations that name the storage provisioner.
func (b *PVC) Provisioner(name string) *PVC {
	return b.Annotation(annProvisioner, name).Annotation(annBetaProvisioner, name)
}

// Phase sets status.phase.
func (b *PVC) Phase(phase v1.PersistentVolumeClaimPhase) *PVC { b.pvc.Status.Phase = phase; return b }

// Deleting marks the claim as being deleted, held by a finalizer.
func (b *PVC) Deleting() *PVC {
	b.pvc.DeletionTimestamp = deletedAt.DeepCopy()
	b.pvc.Finalizers = []string{"kubernetes.io/pvc-protection"}
	return b
}

// Owner adds an owner reference.
func (b *PVC) Owner(owner metav1.OwnerReference) *PVC {
	b.pvc.OwnerReferences = append(b.pvc.OwnerReferences, owner)
	return b
}

// OwnedBy makes the pod the claim's controller, as a generic ephemeral
// volume's claim has it.
func (b *PVC) OwnedBy(pod *v1.Pod) *PVC {
	b.pvc.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod")),
	}
	return b
}
