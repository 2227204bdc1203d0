// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=pav,categories=stowage
// +kubebuilder:printcolumn:name="Modes",type=string,JSONPath=`.spec.provisioningModes`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="metadata.name must be a DNS label: at most 63 lowercase letters, digits and hyphens, with a letter or digit at each end"

// PavProvisioner is a volume provisioner that is written as pod templates: pods that validate,
// create, delete, stage and unstage a volume. StorageClasses name it in their provisioner,
// PersistentVolumes in their csi.driver.
//
// Every string in volumeValidation, volumeCreation, volumeDeletion, volumeStaging and
// volumeUnstaging may be a template, and every object and list, too: a string that sets the
// variable yaml to true and yields its YAML. Keys of objects are no templates.
type PavProvisioner struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the provisioner.
	Spec PavProvisionerSpec `json:"spec"`

	// status is what the controller makes of the spec.
	// +optional
	Status PavProvisionerStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// PavProvisionerList is a list of provisioners.
type PavProvisionerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PavProvisioner `json:"items"`
}

// ProvisioningMode is how volumes of a provisioner come to be.
// +kubebuilder:validation:Enum=Dynamic;Static
type ProvisioningMode string

// The provisioning modes.
const (
	// ProvisioningDynamic: the controller creates volumes for claims.
	ProvisioningDynamic ProvisioningMode = "Dynamic"
	// ProvisioningStatic: users write PersistentVolumes.
	ProvisioningStatic ProvisioningMode = "Static"
)

// PavProvisionerSpec describes a provisioner.
// +kubebuilder:validation:XValidation:rule="!has(self.storageCapacity) || self.provisioningModes.exists(m, m == 'Dynamic')",message="storageCapacity needs the provisioning mode Dynamic"
type PavProvisionerSpec struct {
	// provisioningModes are the modes that the provisioner supports: Dynamic, in which a claim
	// whose StorageClass names the provisioner gets a new volume, and Static, in which a user
	// writes a PersistentVolume whose csi.driver names it.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	ProvisioningModes []ProvisioningMode `json:"provisioningModes"`

	// volumeValidation limits the volumes that can be requested: an object, or one template that
	// yields it.
	// +optional
	VolumeValidation *VolumeValidation `json:"volumeValidation,omitempty"`

	// volumeCreation creates volumes of the mode Dynamic: an object, or one template that yields
	// it.
	// +optional
	VolumeCreation *VolumeCreation `json:"volumeCreation,omitempty"`

	// volumeDeletion deletes volumes of the mode Dynamic, and what a failed creation left: an
	// object, or one template that yields it. Without it nothing runs.
	// +optional
	VolumeDeletion *VolumeCleanup `json:"volumeDeletion,omitempty"`

	// volumeStaging makes a volume available on a node: an object, or one template that yields it.
	VolumeStaging VolumeStaging `json:"volumeStaging"`

	// volumeUnstaging reverts volumeStaging on the node: an object, or one template that yields
	// it. Without it nothing runs after the staging pod is gone.
	// +optional
	VolumeUnstaging *VolumeCleanup `json:"volumeUnstaging,omitempty"`

	// podNamespaces are the namespaces in which pods of the provisioner may run besides the
	// provisioner namespace.
	// +optional
	PodNamespaces PodNamespaces `json:"podNamespaces,omitzero"`

	// accessibility is from which nodes a volume of the mode Dynamic can be used: Anywhere (the
	// default); SelectedNode, only the node that the scheduler selected, on which the creation
	// and deletion pods run, too; or an object with topologyKeys, the nodes that have the
	// selected node's values of these labels. It becomes the node affinity of the
	// PersistentVolume.
	// +optional
	Accessibility *Accessibility `json:"accessibility,omitempty"`

	// storageCapacity is how many bytes of volumes a node can hold: a quantity, or a template
	// that is evaluated for each node with the variable node, and yields 0 or no text for a node
	// that can hold none. The scheduler selects only nodes with enough capacity for a claim; what
	// the PavVolumes of the provisioner have there is subtracted. It needs accessibility
	// SelectedNode. Without it capacity is not tracked.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$|[{][{%#]`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="must be a quantity that is not negative, or a template"
	StorageCapacity *intstr.IntOrString `json:"storageCapacity,omitempty"`

	// fsGroupPolicy is the fsGroupPolicy of the provisioner's CSIDriver.
	// +optional
	// +kubebuilder:default=None
	// +kubebuilder:validation:Enum=None;File;ReadWriteOnceWithFSType
	FSGroupPolicy storagev1.FSGroupPolicy `json:"fsGroupPolicy,omitempty"`

	// mountOptions are the mount options that StorageClasses and PersistentVolumes may name.
	// Without it they may name none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	MountOptions []string `json:"mountOptions,omitempty"`

	// deviceAllowList are the block devices that a staging pod outside the provisioner namespace
	// may make its volume: paths such as /dev/mapper/crypt-*, in which * stands for any
	// characters but /. Privileged staging pods in the provisioner namespace need no entry.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^/dev(/[A-Za-z0-9_.:+@*-]+)+$`
	// +kubebuilder:validation:items:MaxLength=256
	DeviceAllowList []string `json:"deviceAllowList,omitempty"`

	// timeouts are how long the pod of each step may take, from its creation.
	// +optional
	// +kubebuilder:default={}
	Timeouts StepTimeouts `json:"timeouts,omitzero"`

	// backoff is the delay before a step that failed is tried again.
	// +optional
	// +kubebuilder:default={}
	Backoff Backoff `json:"backoff,omitzero"`
}

// PodNamespaces are namespaces in which pods of a provisioner may run.
type PodNamespaces struct {
	// claim allows the namespace of the claim.
	// +optional
	Claim bool `json:"claim,omitempty"`

	// names are further namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`
}

// StepTimeouts are how long the pod of each step may take, from its creation.
type StepTimeouts struct {
	// validation is that of the validation pod.
	// +optional
	// +kubebuilder:default="5m"
	Validation PositiveDuration `json:"validation,omitzero"`
	// creation is that of the creation pod.
	// +optional
	// +kubebuilder:default="10m"
	Creation PositiveDuration `json:"creation,omitzero"`
	// deletion is that of the deletion pod.
	// +optional
	// +kubebuilder:default="10m"
	Deletion PositiveDuration `json:"deletion,omitzero"`
	// staging is that of the staging pod, until the volume is available.
	// +optional
	// +kubebuilder:default="5m"
	Staging PositiveDuration `json:"staging,omitzero"`
	// unstaging is that of the unstaging pod.
	// +optional
	// +kubebuilder:default="5m"
	Unstaging PositiveDuration `json:"unstaging,omitzero"`
}

// Backoff is the delay before a step that failed is tried again. It doubles with each failure in
// sequence.
// +kubebuilder:validation:XValidation:rule="!has(self.initial) || !has(self.max) || duration(self.initial) <= duration(self.max)",message="initial must not be longer than max"
type Backoff struct {
	// initial is the delay after the first failure.
	// +optional
	// +kubebuilder:default="5s"
	Initial PositiveDuration `json:"initial,omitzero"`
	// max is the longest delay.
	// +optional
	// +kubebuilder:default="5m"
	Max PositiveDuration `json:"max,omitzero"`
}

// PositiveDuration is a duration such as 90s or 1h30m.
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a duration greater than 0, such as 90s or 1h30m"
type PositiveDuration struct{ metav1.Duration }

// PavProvisionerStatus is what the controller makes of a provisioner's spec.
type PavProvisionerStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// revision is the name of the ControllerRevision, in the provisioner namespace, of the last
	// spec that was accepted. New volumes use it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`

	// conditions describe the provisioner. Accepted: its spec is valid and its CSIDriver is its
	// own; while it is not True, the provisioner provisions nothing.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionAccepted is the condition of a PavProvisioner whose spec is valid.
const ConditionAccepted = "Accepted"

// ConditionCapacityPublished is the condition of a PavProvisioner with storageCapacity whose
// CSIStorageCapacities were published. It is false if nodes have none that should.
const ConditionCapacityPublished = "CapacityPublished"
