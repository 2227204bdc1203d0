// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=pavstg,categories=stowage
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Provisioner",type=string,JSONPath=`.spec.provisioner`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Volume",type=string,JSONPath=`.status.volumeName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Staged")].reason`
// +kubebuilder:printcolumn:name="Failures",type=integer,JSONPath=`.status.failures`
// +kubebuilder:printcolumn:name="Handle",type=string,JSONPath=`.spec.handle`,priority=1
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.step.podName`,priority=1
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.lastError.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[0-9a-f]{32}[.]') && self.metadata.name.endsWith('.' + self.spec.nodeName)",message="metadata.name must be 32 hexadecimal digits, a dot and spec.nodeName"

// PavStaging is a volume of a PavProvisioner on a node: that kubelet needs it there, and how far the
// controller has come. The node service stowage-csi of the node creates it for kubelet's
// NodeStageVolume and deletes it for NodeUnstageVolume; it writes the spec. The controller writes
// the status, and removes its finalizer when nothing of the volume is left on the node.
type PavStaging struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the node needs, and what it has.
	Spec PavStagingSpec `json:"spec"`

	// status is how far the staging has come.
	// +optional
	Status PavStagingStatus `json:"status,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// PavStagingList is a list of stagings.
type PavStagingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PavStaging `json:"items"`
}

// MaxStagingNode is the longest name of a node, in bytes, on which volumes can be staged: the name of
// a PavStaging has it.
const MaxStagingNode = 253 - volumeKeyBytes - 1

// volumeKeyBytes is the length of what PavVolumeKey returns.
const volumeKeyBytes = 32

// PavVolumeKey identifies a volume by driver and handle in names of objects and directories: 32
// hexadecimal digits.
func PavVolumeKey(driver, handle string) string {
	hash := sha256.Sum256([]byte(driver + "^" + handle)) // a driver has no ^
	return hex.EncodeToString(hash[:])[:volumeKeyBytes]
}

// PavStagingName returns the name of the PavStaging of a volume on a node.
func PavStagingName(driver, handle, node string) string {
	return PavVolumeKey(driver, handle) + "." + node
}

// PavStagingSpec is what a node needs, and what it has. The node service writes it.
// +kubebuilder:validation:XValidation:rule="self.provisioner == oldSelf.provisioner && self.handle == oldSelf.handle && self.nodeName == oldSelf.nodeName",message="the volume and the node do not change"
type PavStagingSpec struct {
	// provisioner is the name of the PavProvisioner, csi.driver of the PersistentVolume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Provisioner string `json:"provisioner"`

	// handle is csi.volumeHandle of the PersistentVolume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Handle string `json:"handle"`

	// nodeName is the node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=220
	NodeName string `json:"nodeName"`

	// bootID is the boot of the node (/proc/sys/kernel/random/boot_id) in which kubelet last
	// requested the volume, followed by / and a number if the node has lost the volume since. An
	// attempt of another boot is void.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID"`

	// clearedAttempt: the node has no mount, loop device or holder of a device left of the attempts
	// up to this one, and no pod of the node has a volume of them. A PavStaging is created only when
	// nothing is left of an earlier one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ClearedAttempt int64 `json:"clearedAttempt,omitempty"`

	// useRevision makes the controller unstage the volume with the last accepted revision of the
	// provisioner instead of the one that staged it. An administrator sets it to repair a volume whose
	// unstaging fails because of a template; spec.useRevision of the PavVolume has the same effect.
	// +optional
	UseRevision UseRevision `json:"useRevision,omitempty"`

	// volume is what the node has found at /pav/volume of the attempt in status.stagedAttempt. Only
	// this is mounted into pods.
	// +optional
	Volume *StagedVolume `json:"volume,omitempty"`
}

// StagedVolume identifies the directory or the block device that a staging pod made its volume.
type StagedVolume struct {
	// attempt is that of the staging pod.
	// +kubebuilder:validation:Minimum=1
	Attempt int64 `json:"attempt"`

	// fileSystem is the device number of the file system that has the directory or the device node,
	// as MAJOR:MINOR.
	// +kubebuilder:validation:MaxLength=32
	FileSystem string `json:"fileSystem"`

	// inode is the inode number in that file system.
	// +kubebuilder:validation:Pattern=`^[0-9]{1,20}$`
	Inode string `json:"inode"`

	// device is the number of a block device, as MAJOR:MINOR.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Device string `json:"device,omitempty"`

	// diskSequence distinguishes the block device from others that get its number later (diskseq in sysfs).
	// +optional
	// +kubebuilder:validation:MaxLength=32
	DiskSequence string `json:"diskSequence,omitempty"`
}

// PavStagingPhase is how far a staging has come.
// +kubebuilder:validation:Enum=Pending;Validating;Staging;Staged;Unstaging;Clearing
type PavStagingPhase string

// The phases. A staging is Pending, for static volumes Validating, then Staging and Staged. From
// Staging and Staged it becomes Unstaging if the staging pod failed, the node rebooted, or the
// PavStaging is deleted, then Clearing, and then Pending, for the next attempt.
const (
	// PavStagingPending: nothing of the volume is on the node.
	PavStagingPending PavStagingPhase = "Pending"
	// PavStagingValidating: the validation pod of a static volume runs or is about to be created.
	PavStagingValidating PavStagingPhase = "Validating"
	// PavStagingStaging: the staging pod was or is about to be created, and the volume is not ready.
	PavStagingStaging PavStagingPhase = "Staging"
	// PavStagingStaged: the volume is available at /pav/volume of the attempt in stagedAttempt.
	PavStagingStaged PavStagingPhase = "Staged"
	// PavStagingUnstaging: the staging pod is removed, then the unstaging pod runs until it
	// succeeds.
	PavStagingUnstaging PavStagingPhase = "Unstaging"
	// PavStagingClearing: the unstaging pod has succeeded. The node is to confirm in
	// spec.clearedAttempt that nothing is left.
	PavStagingClearing PavStagingPhase = "Clearing"
)

// PavStagingPhases are all phases.
func PavStagingPhases() []PavStagingPhase {
	return []PavStagingPhase{PavStagingPending, PavStagingValidating, PavStagingStaging, PavStagingStaged, PavStagingUnstaging, PavStagingClearing}
}

// PavStagingStatus is how far a staging has come. Only the controller writes it.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.attempt) || has(self.attempt) && self.attempt >= oldSelf.attempt",message="the number of the attempt does not decrease"
type PavStagingStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is how far the staging has come.
	// +optional
	Phase PavStagingPhase `json:"phase,omitempty"`

	// attempt counts the pods of the staging, of all steps: it is increased before each is
	// created, and never decreased, so that each has a name of its own.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt int64 `json:"attempt,omitempty"`

	// stagedAttempt is the number of the last staging pod. The pod's /pav is the directory
	// <volume>/<UID>/<stagedAttempt> below the staging directory of the node, where <volume> are the
	// first 32 digits of the name and <UID> is the PavStaging's.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StagedAttempt int64 `json:"stagedAttempt,omitempty"`

	// allowedDevices are the block devices that the last staging pod may make its volume, like
	// spec.deviceAllowList of the provisioner; * alone allows any. Without entries it allows none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=256
	AllowedDevices []string `json:"allowedDevices,omitempty"`

	// bootID is the boot of the node in which the last staging pod was created.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`

	// step is the step in progress. It is written before its pod is created and removed after
	// the pod is gone and its result is written, so at most one pod of the staging exists.
	// +optional
	Step *PavVolumeStep `json:"step,omitempty"`

	// volumeName is the name of the PersistentVolume.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VolumeName string `json:"volumeName,omitempty"`

	// revision is the name of the ControllerRevision, in the provisioner namespace, of the
	// provisioner's spec that stages and unstages the volume.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`

	// claim is the PersistentVolumeClaim at the time of the attempt: the variable pvc of templates.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Claim runtime.RawExtension `json:"claim,omitempty"`

	// volume is the PersistentVolume at the time of the attempt: the variable pv of templates.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Volume runtime.RawExtension `json:"volume,omitempty"`

	// node is the Node at the time of the attempt, without status.images: the variable node of
	// templates.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Node runtime.RawExtension `json:"node,omitempty"`

	// failures counts the failed attempts in sequence to stage the volume.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`

	// unstagingFailures counts the failures in sequence to unstage the volume.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnstagingFailures int32 `json:"unstagingFailures,omitempty"`

	// retryTime is when the step is tried again after a failure.
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`

	// lastError is the last failure. It stays after a later success.
	// +optional
	LastError *PavVolumeError `json:"lastError,omitempty"`

	// conditions describe the staging. Staged: the volume is available on the node; the message
	// says why it is not. Unstageable: False, with a reason, while the volume should be unstaged and
	// cannot be.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The types of conditions of a PavStaging.
const (
	ConditionStaged      = "Staged"
	ConditionUnstageable = "Unstageable"
)
