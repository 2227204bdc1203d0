// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=pavvol,categories=stowage
// +kubebuilder:printcolumn:name="Provisioner",type=string,JSONPath=`.spec.provisioner`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.claimRef.namespace`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.claimRef.name`
// +kubebuilder:printcolumn:name="Capacity",type=string,JSONPath=`.status.capacity`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Failures",type=integer,JSONPath=`.status.failures`
// +kubebuilder:printcolumn:name="Handle",type=string,JSONPath=`.status.handle`,priority=1
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.step.podName`,priority=1
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.lastError.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// PavVolume is the state of a dynamic volume of a PavProvisioner. It has the name of the
// volume's PersistentVolume, is written before anything of the volume is created, or when the
// volume of another provisioner is adopted, and is removed when nothing of it is left. Only the
// controller writes it; an administrator may set spec.useRevision.
type PavVolume struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is created, for whom and by which provisioner.
	Spec PavVolumeSpec `json:"spec"`

	// status is how far the volume has come.
	// +optional
	Status PavVolumeStatus `json:"status,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// PavVolumeList is a list of volumes.
type PavVolumeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PavVolume `json:"items"`
}

// UseRevision selects the revision of the provisioner by which a volume is reverted.
// +kubebuilder:validation:Enum=Latest
type UseRevision string

// UseRevisionLatest: the last accepted revision instead of that in spec.revision.
const UseRevisionLatest UseRevision = "Latest"

// PavVolumeSpec is what is created, for whom and by which provisioner. The claim, the class, the
// node and the revision are taken again before each new attempt to create the volume, while
// nothing of it exists, so that a correction of any of them takes effect. They do not change
// after that: the volume is deleted with those that it was created with.
// +kubebuilder:validation:XValidation:rule="self.provisioner == oldSelf.provisioner && self.provisionerUID == oldSelf.provisionerUID && self.claimRef == oldSelf.claimRef",message="the provisioner and the claim of a volume do not change"
type PavVolumeSpec struct {
	// provisioner is the name of the PavProvisioner.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Provisioner string `json:"provisioner"`

	// provisionerUID is its UID. A provisioner that was deleted and created again under the name
	// is another one.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ProvisionerUID types.UID `json:"provisionerUID"`

	// revision is the name of the ControllerRevision, in the provisioner namespace, of the
	// provisioner's spec that creates and deletes the volume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision"`

	// useRevision makes the controller delete and unstage the volume with the last accepted
	// revision of the provisioner instead of the one that made or staged it. Set it to repair a
	// volume whose deletion or unstaging fails because of a template.
	// +optional
	UseRevision UseRevision `json:"useRevision,omitempty"`

	// claimRef identifies the claim that the volume is created for.
	ClaimRef ClaimReference `json:"claimRef"`

	// claim is the PersistentVolumeClaim at the time of the attempt: the variable pvc of
	// templates.
	// +kubebuilder:pruning:PreserveUnknownFields
	Claim runtime.RawExtension `json:"claim"`

	// class is the StorageClass at the time of the attempt: the variable sc of templates.
	// +kubebuilder:pruning:PreserveUnknownFields
	Class runtime.RawExtension `json:"class"`

	// nodeName is the node that the scheduler selected for the claim. It is empty for classes
	// that bind immediately.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`
}

// ClaimReference identifies a PersistentVolumeClaim.
type ClaimReference struct {
	// namespace is the claim's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name is the claim's name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the claim's UID.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID types.UID `json:"uid"`
}

// PavVolumePhase is how far a volume has come.
// +kubebuilder:validation:Enum=Pending;Validating;Creating;Publishing;Provisioned;Reverting;Deleting;Deleted
type PavVolumePhase string

// The phases. A volume is Pending, Validating, Creating, Publishing and Provisioned in this order,
// then Deleting and Deleted. From Creating and Publishing it becomes Reverting if the attempt
// failed or the claim is gone, and from Reverting Pending, for the next attempt, or Deleted.
const (
	// PavVolumePending: nothing of the volume exists, and no pod that could create it.
	PavVolumePending PavVolumePhase = "Pending"
	// PavVolumeValidating: the validation pod runs or is about to be created.
	PavVolumeValidating PavVolumePhase = "Validating"
	// PavVolumeCreating: the creation pod runs or is about to be created.
	PavVolumeCreating PavVolumePhase = "Creating"
	// PavVolumePublishing: the volume exists, handle and capacity are known, and its
	// PersistentVolume is about to be created.
	PavVolumePublishing PavVolumePhase = "Publishing"
	// PavVolumeProvisioned: the PersistentVolume exists.
	PavVolumeProvisioned PavVolumePhase = "Provisioned"
	// PavVolumeReverting: the deletion pod runs, or is about to be created, to remove what an
	// attempt may have left. No PersistentVolume was created.
	PavVolumeReverting PavVolumePhase = "Reverting"
	// PavVolumeDeleting: the deletion pod runs, or is about to be created, since the
	// PersistentVolume is Released and its policy is Delete.
	PavVolumeDeleting PavVolumePhase = "Deleting"
	// PavVolumeDeleted: nothing of the volume is left; the finalizers are about to be removed.
	PavVolumeDeleted PavVolumePhase = "Deleted"
)

// PavVolumePhases are all phases.
func PavVolumePhases() []PavVolumePhase {
	return []PavVolumePhase{
		PavVolumePending, PavVolumeValidating, PavVolumeCreating, PavVolumePublishing,
		PavVolumeProvisioned, PavVolumeReverting, PavVolumeDeleting, PavVolumeDeleted,
	}
}

// PavVolumeStatus is how far a volume has come.
// +kubebuilder:validation:XValidation:rule="!has(self.step) || self.step.attempt == self.attempt",message="the step in progress is the last attempt"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.attempt) || has(self.attempt) && self.attempt >= oldSelf.attempt",message="the number of the attempt does not decrease"
type PavVolumeStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is how far the volume has come.
	// +optional
	Phase PavVolumePhase `json:"phase,omitempty"`

	// attempt counts the pods of the volume, of all steps: it is increased before each is
	// created, and never decreased, so that each has a name of its own.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt int64 `json:"attempt,omitempty"`

	// step is the step in progress. It is written before its pod is created and removed after
	// the pod is gone and its result is written, so at most one pod of the volume exists.
	// +optional
	Step *PavVolumeStep `json:"step,omitempty"`

	// handle is the volume's handle, once it exists, or during Creating that which
	// volumeCreation.handle determines.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Handle string `json:"handle,omitempty"`

	// capacity is the volume's capacity, once it exists.
	// +optional
	Capacity *resource.Quantity `json:"capacity,omitempty"`

	// volumeUID is the UID of the PersistentVolume, once it exists.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	VolumeUID types.UID `json:"volumeUID,omitempty"`

	// reclaimPolicy is the last known reclaim policy of the PersistentVolume. It decides about the
	// volume if the PersistentVolume was removed without its finalizer.
	// +optional
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy `json:"reclaimPolicy,omitempty"`

	// failures counts the failed attempts to create the volume. Success resets it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`

	// deletionFailures counts the failures in sequence to delete or revert the volume.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeletionFailures int32 `json:"deletionFailures,omitempty"`

	// reschedule is true from the failure of a creation pod that wrote /pav/reschedule until the
	// selected node is removed from the claim.
	// +optional
	Reschedule bool `json:"reschedule,omitempty"`

	// retryTime is when the step is tried again after a failure.
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`

	// lastError is the last failure. It stays after a later success.
	// +optional
	LastError *PavVolumeError `json:"lastError,omitempty"`

	// conditions describe the volume. Provisioned: its PersistentVolume exists. Deletable: False,
	// with a reason, while the volume should be deleted and cannot be. NodeExists: the node that
	// was selected for the volume exists; only for volumes with a node.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The types of conditions of a PavVolume.
const (
	ConditionProvisioned = "Provisioned"
	ConditionDeletable   = "Deletable"
	ConditionNodeExists  = "NodeExists"
)

// PavStepName names a step of a provisioner.
// +kubebuilder:validation:Enum=Validation;Creation;Deletion;Staging;Unstaging
type PavStepName string

// The steps.
const (
	PavStepValidation PavStepName = "Validation"
	PavStepCreation   PavStepName = "Creation"
	PavStepDeletion   PavStepName = "Deletion"
	PavStepStaging    PavStepName = "Staging"
	PavStepUnstaging  PavStepName = "Unstaging"
)

// PavVolumeStep is a step in progress: the pod that is about to be created, exists, or is about
// to be removed.
type PavVolumeStep struct {
	// name is the step.
	Name PavStepName `json:"name"`

	// attempt is the number of the pod.
	// +kubebuilder:validation:Minimum=1
	Attempt int64 `json:"attempt"`

	// revision is the name of the ControllerRevision that the pod is rendered from.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision"`

	// podNamespace is the namespace of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	PodNamespace string `json:"podNamespace,omitempty"`

	// podName is the name of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PodName string `json:"podName,omitempty"`

	// podUID is the UID of the pod, once it was seen to be created by the controller. The result
	// of a pod with another UID does not count.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=128
	PodUID types.UID `json:"podUID,omitempty"`

	// startTime is when the step was written. The timeout of the step counts from it.
	StartTime metav1.Time `json:"startTime"`

	// result is the outcome of the pod, once it is known. It is written before the pod is
	// removed.
	// +optional
	Result *PavStepResult `json:"result,omitempty"`
}

// PavStepResult is the outcome of a step's pod.
type PavStepResult struct {
	// succeeded is true if all main containers of the pod ended with exit code 0, and none was
	// ended from outside before that.
	Succeeded bool `json:"succeeded"`

	// handle is the content of /pav/handle, if the pod wrote it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Handle *string `json:"handle,omitempty"`

	// capacity is the content of /pav/capacity, if the pod wrote it, as it was written.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Capacity *string `json:"capacity,omitempty"`

	// reschedule is true if the pod failed and wrote /pav/reschedule: another node is to be
	// selected.
	// +optional
	Reschedule bool `json:"reschedule,omitempty"`

	// message explains a failure: the content of /pav/error, or what the controller saw.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// PavVolumeError is a failure of a step.
type PavVolumeError struct {
	// step is the step that failed.
	Step PavStepName `json:"step"`
	// attempt is the number of its pod. It is 0 if none was created.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt int64 `json:"attempt,omitempty"`
	// time is when the failure was seen.
	Time metav1.Time `json:"time"`
	// reason is a machine-readable reason.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// message explains the failure, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}
