// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EntryState is how an entry stands.
// +kubebuilder:validation:Enum=Pending;Available;Bound;Released;Cleaning;Skipped;Missing;Replaced;Unproven;Failing;Retained;Failed
type EntryState string

// The states.
const (
	EntryPending   EntryState = "Pending"   // about to be published, or published and without a phase
	EntryAvailable EntryState = "Available" // the volume is free
	EntryBound     EntryState = "Bound"     // the volume has a claim
	EntryReleased  EntryState = "Released"  // the claim is gone
	EntryCleaning  EntryState = "Cleaning"  // being cleaned, or about to be
	EntrySkipped   EntryState = "Skipped"   // no volume, for the reason given
	EntryMissing   EntryState = "Missing"   // there is a volume, and no disk
	EntryReplaced  EntryState = "Replaced"  // there is a volume, and another disk
	EntryUnproven  EntryState = "Unproven"  // there is a volume, and perhaps another disk
	EntryFailing   EntryState = "Failing"   // there is a volume, and its disk is failing
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
	// path is where it is on the node.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Path string `json:"path,omitempty"`

	// state is how it stands.
	State EntryState `json:"state"`
	// reason is why it does not stand as one would wish, in a word that stays the
	// same from release to release.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message is why it does not stand as one would wish, and what to do about it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// since is when state or reason last changed.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// kind is what lies there.
	// +optional
	// +kubebuilder:validation:Enum=Mount;Device;Directory
	Kind string `json:"kind,omitempty"`
	// mode is how the class offers it.
	// +optional
	// +kubebuilder:validation:Enum=Filesystem;Block
	Mode string `json:"mode,omitempty"`
	// bytes is the size of the device or of the file system.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Bytes int64 `json:"bytes,omitempty"`
	// identity tells the disk from others.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Identity string `json:"identity,omitempty"`

	// volume is the name of the PersistentVolume that offers it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Volume string `json:"volume,omitempty"`
	// generation is that of the volume, or of the one before it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`

	// link shows whether kubelet finds the device of the volume: Present, or Withheld while
	// it is not proven that the device and what is on it are the volume's. Unprotected is a
	// volume whose path leads to its device directly, such as one that was adopted.
	// +optional
	// +kubebuilder:validation:Enum=Present;Withheld;Unprotected
	Link string `json:"link,omitempty"`
	// filesystem is the file system that the node's record has of the device, as TYPE:UUID
	// of blkid.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Filesystem string `json:"filesystem,omitempty"`
	// acknowledgement names the data on the disk, if it has no volume and its data is kept,
	// unknown or about to be removed: annotation stowage.dev/publish-retained with this
	// name publishes the disk with the data.
	// +optional
	// +kubebuilder:validation:MaxLength=8448
	Acknowledgement string `json:"acknowledgement,omitempty"`

	// cleaning tells how the removal of data goes.
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

// Cleaning is how the removal of data from a disk goes.
type Cleaning struct {
	// method is how data is removed, such as fs-reset or zero.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Method string `json:"method,omitempty"`
	// startTime is when the current attempt began; absent while it waits.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// doneBytes is how far it is.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DoneBytes int64 `json:"doneBytes,omitempty"`
	// totalBytes is how far it has to go; 0 if that is not known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// attempts is how many have been begun since the agent started.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`
	// lastError is why the last attempt failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LastError string `json:"lastError,omitempty"`
	// request asks the controller for a Job; absent while the agent cleans by itself.
	// +optional
	Request *CleaningRequest `json:"request,omitempty"`
}

// TombstoneState is whether a disk may hold data.
// +kubebuilder:validation:Enum=Published;Cleaning;Retained
type TombstoneState string

// The states.
const (
	TombstonePublished TombstoneState = "Published" // a volume offered it, and it was not cleaned
	TombstoneCleaning  TombstoneState = "Cleaning"  // a clean has begun, and has not ended
	TombstoneRetained  TombstoneState = "Retained"  // kept, with its data
)

// Tombstone is a disk that is not clean, of which the volume is gone.
type Tombstone struct {
	// identity tells the disk from others.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Identity string `json:"identity"`
	// class and name are the slot in which it was published.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class,omitempty"`
	// name is the slot's name in the class's directory.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`
	// volume is the name of the PersistentVolume that offered it last.
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
	// state is whether, and why, it may hold data.
	State TombstoneState `json:"state"`
	// since is when that was last written down.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// released is when the controller released the volume's claim; absent if it had
	// none, or if the node itself remembers the disk.
	// +optional
	Released *metav1.Time `json:"released,omitempty"`
}
