// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EntryState is the state of an entry.
// +kubebuilder:validation:Enum=Pending;Available;Bound;Released;Cleaning;Skipped;Missing;Replaced;Unproven;Failing;Retained;Failed
type EntryState string

// The states.
const (
	EntryPending   EntryState = "Pending"   // being published
	EntryAvailable EntryState = "Available" // the volume is free
	EntryBound     EntryState = "Bound"     // the volume has a claim
	EntryReleased  EntryState = "Released"  // the claim was deleted
	EntryCleaning  EntryState = "Cleaning"  // being cleaned, or waiting for it
	EntrySkipped   EntryState = "Skipped"   // not published; see the reason
	EntryMissing   EntryState = "Missing"   // the volume has no disk
	EntryReplaced  EntryState = "Replaced"  // the volume has another disk
	EntryUnproven  EntryState = "Unproven"  // the volume may have another disk
	EntryFailing   EntryState = "Failing"   // the volume's disk is failing
	EntryRetained  EntryState = "Retained"  // kept, with its data, by reclaim policy Retain
	EntryFailed    EntryState = "Failed"    // the volume's phase is Failed
)

// EntryStates are all states.
func EntryStates() []EntryState {
	return []EntryState{
		EntryPending, EntryAvailable, EntryBound, EntryReleased, EntryCleaning, EntrySkipped,
		EntryMissing, EntryReplaced, EntryUnproven, EntryFailing, EntryRetained, EntryFailed,
	}
}

// Entry is an entry of a discovery directory: a slot for one volume.
type Entry struct {
	// class is the storage class whose directory it is.
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class"`
	// name is the entry's name in the directory.
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`
	// path is its path on the node.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Path string `json:"path,omitempty"`

	// state is the state of the entry.
	State EntryState `json:"state"`
	// reason is a machine-readable reason why the disk is not available.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message explains the reason, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// since is when state or reason last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// kind is the kind of the entry.
	// +optional
	// +kubebuilder:validation:Enum=Mount;Device;Directory
	Kind string `json:"kind,omitempty"`
	// mode is the volume mode of the class.
	// +optional
	// +kubebuilder:validation:Enum=Filesystem;Block
	Mode string `json:"mode,omitempty"`
	// bytes is the size of the device or of the file system.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Bytes int64 `json:"bytes,omitempty"`
	// identity is the unique identity of the disk.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Identity string `json:"identity,omitempty"`

	// volume is the name of its PersistentVolume.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Volume string `json:"volume,omitempty"`
	// generation is that of the volume, or of the previous one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`

	// link shows whether kubelet finds the device of the volume, by a link or mounted by the
	// provisioner: Present, or Withheld while it is not proven that the device and its content are
	// the volume's. Unprotected is a volume whose path leads to its device directly, such as an
	// adopted one.
	// +optional
	// +kubebuilder:validation:Enum=Present;Withheld;Unprotected
	Link string `json:"link,omitempty"`
	// filesystem is the recorded file system of the device, as TYPE:UUID of blkid.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Filesystem string `json:"filesystem,omitempty"`
	// acknowledgement names the data on the disk, if it has no volume and its data is kept,
	// unknown or about to be removed: annotation stowage.dev/publish-retained with this
	// name publishes the disk with the data.
	// +optional
	// +kubebuilder:validation:MaxLength=8448
	Acknowledgement string `json:"acknowledgement,omitempty"`

	// cleaning is the progress of the removal of data.
	// +optional
	Cleaning *Cleaning `json:"cleaning,omitempty"`
	// blankProof is the progress of reading a device that has to be blank from end to end;
	// absent if it is not read.
	// +optional
	BlankProof *BlankProof `json:"blankProof,omitempty"`
}

// BlankProof is the progress of reading a device from end to end, to prove that all its
// bytes are zero.
type BlankProof struct {
	// startTime is when the current attempt began; absent while it waits.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// doneBytes is how many bytes were read and are zero.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DoneBytes int64 `json:"doneBytes,omitempty"`
	// totalBytes is how many bytes the device has.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// attempts is how many attempts were begun since the last success or the provisioner's
	// start.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`
	// lastError is why the last attempt failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LastError string `json:"lastError,omitempty"`
}

// The values of Entry.Link.
const (
	LinkPresent     = "Present"
	LinkWithheld    = "Withheld"
	LinkUnprotected = "Unprotected"
)

// Cleaning is the progress of the removal of data from a disk.
type Cleaning struct {
	// method is how data is removed, such as fs-reset or zero.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Method string `json:"method,omitempty"`
	// startTime is when the current attempt began; absent while it waits.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// doneBytes is how many bytes are done.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DoneBytes int64 `json:"doneBytes,omitempty"`
	// totalBytes is how many bytes have to be done; 0 if unknown.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// attempts is how many attempts were begun since the provisioner started.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`
	// lastError is why the last attempt failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LastError string `json:"lastError,omitempty"`
	// request is the request for a cleaning Job; absent if the provisioner cleans by itself.
	// +optional
	Request *CleaningRequest `json:"request,omitempty"`
}
