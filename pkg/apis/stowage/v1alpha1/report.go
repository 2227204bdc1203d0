// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ldr,categories=stowage
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Page",type=integer,JSONPath=`.spec.page`,priority=1
// +kubebuilder:printcolumn:name="Volumes",type=integer,JSONPath=`.status.summary.volumes`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.summary.free`
// +kubebuilder:printcolumn:name="Capacity",type=string,JSONPath=`.status.summary.capacity`
// +kubebuilder:printcolumn:name="Bound",type=integer,JSONPath=`.status.summary.bound`
// +kubebuilder:printcolumn:name="Cleaning",type=integer,JSONPath=`.status.summary.cleaning`
// +kubebuilder:printcolumn:name="Skipped",type=integer,JSONPath=`.status.summary.skipped`
// +kubebuilder:printcolumn:name="Failing",type=integer,JSONPath=`.status.summary.failing`
// +kubebuilder:printcolumn:name="Trouble",type=integer,JSONPath=`.status.summary.trouble`
// +kubebuilder:printcolumn:name="Disks",type=string,JSONPath=`.status.conditions[?(@.type=="DisksHealthy")].status`,priority=1
// +kubebuilder:printcolumn:name="Config",type=string,JSONPath=`.status.conditions[?(@.type=="ConfigValid")].status`,priority=1
// +kubebuilder:printcolumn:name="Changed",type=date,JSONPath=`.status.lastTransitionTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec.page == 1 ? self.metadata.name == self.spec.nodeName : self.metadata.name.matches('[.]page-[1-9][0-9]?$') && int(self.metadata.name.find('[0-9]+$')) == self.spec.page",message="the first page is named like its node, page n ends in .page-n"

// LocalDiskReport is the report of a node's provisioner about the node's disks: the entries of
// the discovery directories, their volumes, and why an entry has no volume.
type LocalDiskReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the node and the page of its report.
	Spec LocalDiskReportSpec `json:"spec"`

	// status is what the node's provisioner found. It is written when a state changes, not at
	// every scan.
	// +optional
	Status LocalDiskReportStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// LocalDiskReportList is a list of reports.
type LocalDiskReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []LocalDiskReport `json:"items"`
}

// LocalDiskReportSpec identifies the node and the page of its report.
// +kubebuilder:validation:XValidation:rule="self.nodeName == oldSelf.nodeName && self.page == oldSelf.page",message="the node and the page of a report do not change"
type LocalDiskReportSpec struct {
	// nodeName is the name of the node.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// page counts from 1. Only the first page has summary, conditions, classes,
	// tombstones and truncated; all pages have entries.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Page int32 `json:"page"`

	// tombstones are of an earlier version: the controller moves them to LocalDiskTombstones, and
	// then removes the label stowage.dev/tombstones. Provisioners read both.
	// +optional
	// +listType=map
	// +listMapKey=identity
	// +kubebuilder:validation:MaxItems=512
	Tombstones []Tombstone `json:"tombstones,omitempty"`
}

// LocalDiskReportStatus is what the provisioner of a node found.
type LocalDiskReportStatus struct {
	// lastTransitionTime is when something in this page last changed state.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// summary counts the entries of all pages.
	// +optional
	Summary *Summary `json:"summary,omitempty"`

	// conditions describe the provisioner as a whole. Ready: it reads the discovery
	// directories of all classes; Unknown if it does not renew its Lease, so that the
	// report may be out of date. DisksHealthy: no disk is failing, missing, replaced or
	// unreadable. ConfigValid: its configuration is valid; while it is False, the last valid
	// configuration is in force.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// classes are the configured storage classes.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Classes []ClassStatus `json:"classes,omitempty"`

	// entries are the entries of the discovery directories, and volumes whose entry is gone.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Entries []Entry `json:"entries,omitempty"`

	// truncated is the number of entries that are in no page because there are too many.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Truncated int32 `json:"truncated,omitempty"`

	// tombstones are disks that are not clean and whose volume is gone, from the node's records.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Tombstones []Tombstone `json:"tombstones,omitempty"`

	// jobs are the controller's answers to the requests for cleaning Jobs in all pages. The
	// provisioner only reads them.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=128
	Jobs []CleaningJob `json:"jobs,omitempty"`
}

// MaxJobs bounds the answers in a report. A node cleans fewer disks at a time.
const MaxJobs = 128

// The types of conditions. The provisioner writes all of them; the controller sets Ready to
// Unknown, with ReasonNoHeartbeat.
const (
	ConditionReady        = "Ready"
	ConditionDisksHealthy = "DisksHealthy"
	ConditionConfigValid  = "ConfigValid"
)

// ReasonNoHeartbeat is why Ready is Unknown: the provisioner does not renew its Lease.
const ReasonNoHeartbeat = "NoHeartbeat"

// Summary counts entries. An entry is counted in volumes if it has a volume, and in at most one
// of bound, cleaning, skipped, failing and trouble; a bound entry with a reason is counted in
// trouble, too.
type Summary struct {
	// volumes is the number of published volumes.
	// +kubebuilder:validation:Minimum=0
	Volumes int32 `json:"volumes"`
	// capacity is that of all volumes.
	// +optional
	Capacity resource.Quantity `json:"capacity,omitempty"`
	// free is the capacity of the volumes that are available.
	// +optional
	Free resource.Quantity `json:"free,omitempty"`
	// bound is the number of volumes with a claim.
	// +kubebuilder:validation:Minimum=0
	Bound int32 `json:"bound"`
	// cleaning is the number of disks that are being cleaned or wait for it.
	// +kubebuilder:validation:Minimum=0
	Cleaning int32 `json:"cleaning"`
	// skipped is the number of entries without a volume.
	// +kubebuilder:validation:Minimum=0
	Skipped int32 `json:"skipped"`
	// failing is the number of volumes whose disk is failing.
	// +kubebuilder:validation:Minimum=0
	Failing int32 `json:"failing"`
	// trouble is the number of entries that need an administrator: Missing, Replaced, Unproven, Retained, Failed, and
	// Bound with a reason.
	// +kubebuilder:validation:Minimum=0
	Trouble int32 `json:"trouble"`
}

// ClassStatus is the state of a storage class on the node.
type ClassStatus struct {
	// name is the name of the StorageClass.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// hostDir is the class's discovery directory on the node.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	HostDir string `json:"hostDir,omitempty"`
	// ready: the directory can be read and the StorageClass is suitable for local volumes.
	Ready bool `json:"ready"`
	// reason is a machine-readable reason why the class is not ready.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message explains why the class is not ready, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// since is when ready last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}
