// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ld,categories=stowage
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:selectablefield:JSONPath=`.status.health`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Device",type=string,JSONPath=`.status.device`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Transport",type=string,JSONPath=`.status.transport`
// +kubebuilder:printcolumn:name="Rotational",type=boolean,JSONPath=`.status.rotational`,priority=1
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.status.model`
// +kubebuilder:printcolumn:name="Serial",type=string,JSONPath=`.status.serial`,priority=1
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Health",type=string,JSONPath=`.status.health`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.status.class`
// +kubebuilder:printcolumn:name="Path",type=string,JSONPath=`.status.path`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.startsWith(self.spec.nodeName + '.') && size(self.metadata.name) == size(self.spec.nodeName) + 3 && self.metadata.name.matches('[.][0-9a-f]{2}$')",message="a disk is named like its node, with .00 to .ff at the end"

// LocalDisk is a disk of a node, as the node's provisioner found it. A disk keeps its name while
// its identity is the same.
type LocalDisk struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the node.
	Spec LocalDiskSpec `json:"spec"`

	// status is what the node's provisioner found. It is written when it changes, not at every
	// scan.
	// +optional
	Status LocalDiskStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// LocalDiskList is a list of disks.
type LocalDiskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []LocalDisk `json:"items"`
}

// LocalDiskSpec identifies the node of a disk.
type LocalDiskSpec struct {
	// nodeName is the name of the node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=250
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the node of a disk does not change"
	NodeName string `json:"nodeName"`
}

// LocalDiskStatus is what the provisioner of a node found about a disk.
type LocalDiskStatus struct {
	// identity is the unique identity of the disk.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Identity string `json:"identity,omitempty"`
	// device is the device on the node, such as /dev/sdb; it may be another after a restart.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Device string `json:"device,omitempty"`
	// bytes is the size of the disk.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Bytes int64 `json:"bytes,omitempty"`
	// size is bytes, rounded down to whole Gi, or to Mi below one Gi.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// transport is how the disk is attached.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Transport string `json:"transport,omitempty"`
	// rotational: the disk is a hard disk, or says so.
	// +optional
	Rotational bool `json:"rotational,omitempty"`
	// model is what the disk reports, with its vendor.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Model string `json:"model,omitempty"`
	// serial is the serial number that the disk reports.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Serial string `json:"serial,omitempty"`

	// state is the state of the disk.
	// +optional
	State LocalDiskState `json:"state,omitempty"`
	// reason is a machine-readable reason why the disk is not eligible.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message explains the reason.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// class is the storage class whose discovery directory has the disk.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class,omitempty"`
	// path is the disk's entry in that directory.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Path string `json:"path,omitempty"`
	// health is the health of the disk, as far as the provisioner reads it.
	// +optional
	Health LocalDiskHealth `json:"health,omitempty"`
	// since is when state, reason or health last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// LocalDiskState is the state of a disk.
// +kubebuilder:validation:Enum=Eligible;Ineligible;Assigned;Missing
type LocalDiskState string

// The states.
const (
	LocalDiskEligible   LocalDiskState = "Eligible"   // unused, and without a signature
	LocalDiskIneligible LocalDiskState = "Ineligible" // see the reason
	LocalDiskAssigned   LocalDiskState = "Assigned"   // an entry of a discovery directory leads to it
	LocalDiskMissing    LocalDiskState = "Missing"    // not attached to the node
)

// LocalDiskHealth is the health of a disk.
// +kubebuilder:validation:Enum=Healthy;Degraded;Failing
type LocalDiskHealth string

// The values of health.
const (
	LocalDiskHealthy  LocalDiskHealth = "Healthy"  // no sign of failure was found
	LocalDiskDegraded LocalDiskHealth = "Degraded" // signs of failure were found, and it is still used
	LocalDiskFailing  LocalDiskHealth = "Failing"  // no pod is to start on it
)

// MaxLocalDisks is how many disks of a node are listed. Admission cannot count objects, so the
// names are the limit.
const MaxLocalDisks = 256

// maxDiskNode is the length of the longest node name that a disk's name can contain.
const maxDiskNode = maxNameLength - len(".00")

// LocalDiskName returns the name of the disk in a slot of a node; empty if the node's name is too
// long.
func LocalDiskName(node string, slot int) string {
	if len(node) > maxDiskNode {
		return ""
	}
	return fmt.Sprintf("%s.%02x", node, slot)
}

// Slot returns the slot of a disk of a node; false if its name is not of the form that
// LocalDiskName returns.
func (d *LocalDisk) Slot() (int, bool) {
	digits, ok := strings.CutPrefix(d.Name, d.Spec.NodeName+".")
	slot, err := strconv.ParseUint(digits, 16, 8)
	return int(slot), ok && err == nil && d.Name == LocalDiskName(d.Spec.NodeName, int(slot))
}

// FitLocalDisk returns a status that the schema accepts, as Fit does for entries.
func FitLocalDisk(status LocalDiskStatus) LocalDiskStatus {
	const maxShort, maxTransport = 255, 64
	status.Identity = cut(status.Identity, maxIdentity)
	status.Device, status.Model, status.Serial = cut(status.Device, maxShort), cut(status.Model, maxShort), cut(status.Serial, maxShort)
	status.Transport, status.Reason = cut(status.Transport, maxTransport), cut(status.Reason, maxReason)
	status.Message, status.Class, status.Path = cut(status.Message, maxMessage), cut(status.Class, maxNameLength), cut(status.Path, maxPath)
	status.Bytes = max(status.Bytes, 0)
	return status
}
