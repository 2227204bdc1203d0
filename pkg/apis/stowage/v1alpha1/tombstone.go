// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ldt,categories=stowage
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.class`
// +kubebuilder:printcolumn:name="Volume",type=string,JSONPath=`.spec.volume`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Identity",type=string,JSONPath=`.spec.identity`,priority=1
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.spec.since`

// LocalDiskTombstone is a disk whose volume the controller removed while the node or the disk was
// unreachable. The disk may hold data: a provisioner on any node that finds it, and has no record
// of it, cleans it before it publishes it, or keeps it if the state is Retained. Only the
// controller and administrators write tombstones.
type LocalDiskTombstone struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the disk and its last volume.
	Spec LocalDiskTombstoneSpec `json:"spec"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// LocalDiskTombstoneList is a list of tombstones.
type LocalDiskTombstoneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []LocalDiskTombstone `json:"items"`
}

// LocalDiskTombstoneSpec is a disk and its last volume.
// +kubebuilder:validation:XValidation:rule="self.nodeName == oldSelf.nodeName && self.identity == oldSelf.identity",message="the node and the disk of a tombstone do not change"
type LocalDiskTombstoneSpec struct {
	// nodeName is the name of the node that had the volume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	Tombstone `json:",inline"`
}

// MaxTombstones is how many LocalDiskTombstones of a node the controller creates. Every
// provisioner lists those of all nodes.
const MaxTombstones = 512

// TombstoneName returns the name of the tombstone of a node's disk: 128 bits of a SHA-256.
func TombstoneName(node, identity string) string {
	sum := sha256.Sum256([]byte(node + "/" + identity)) // the name of a node contains no slash
	return "ldt-" + hex.EncodeToString(sum[:16])
}

// TombstoneState is why a disk may hold data.
// +kubebuilder:validation:Enum=Published;Cleaning;Retained
type TombstoneState string

// The states.
const (
	TombstonePublished TombstoneState = "Published" // it was published, and not cleaned since
	TombstoneCleaning  TombstoneState = "Cleaning"  // a clean was begun, and is not complete
	TombstoneRetained  TombstoneState = "Retained"  // kept with its data
)

// Tombstone is a disk that is not clean and whose volume is gone.
type Tombstone struct {
	// identity is the unique identity of the disk.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Identity string `json:"identity"`
	// class and name identify the slot in which it was published.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class,omitempty"`
	// name is the slot's name in the class's directory.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`
	// volume is the name of its last PersistentVolume.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Volume string `json:"volume,omitempty"`
	// volumeUID is the UID of that PersistentVolume.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	VolumeUID string `json:"volumeUID,omitempty"`
	// generation is that of the volume.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`
	// state is why it may hold data.
	State TombstoneState `json:"state"`
	// since is when the state was written.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// released is when the controller released the volume's claim; absent if it had
	// none, or in a report.
	// +optional
	Released *metav1.Time `json:"released,omitempty"`
}
