// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StorageMap is where the storage of a cluster is: kubectl stowage map.
type StorageMap struct {
	metav1.TypeMeta `json:",inline"`

	// time is when the cluster was read; absent if the files of --from do not say.
	Time *metav1.Time `json:"time,omitempty"`
	// rows are the volumes with node affinity, by place and class.
	Rows []StorageMapRow `json:"rows"`
	// total is the sum of all rows.
	Total StorageMapRow `json:"total"`
	// networkVolumes are the volumes that every node can use, by class.
	NetworkVolumes []StorageMapNetwork `json:"networkVolumes,omitempty"`
	// capacities are the CSIStorageCapacities, by place and class.
	Capacities []StorageMapCapacity `json:"capacities,omitempty"`
	// localDisks are the LocalDisks that no class has, by place.
	LocalDisks []StorageMapLocalDisks `json:"localDisks,omitempty"`
	// waitingPods are the pods that have no node and wait for storage, the oldest first.
	WaitingPods []WaitingPod `json:"waitingPods,omitempty"`
	// disks are the disks of LocalDiskReports, and the volumes of one node without such a disk.
	Disks []StorageMapDisk `json:"disks,omitempty"`
	// unseen is what could not be read.
	Unseen []string `json:"unseen,omitempty"`
}

// StorageMapPlace is where storage is.
type StorageMapPlace struct {
	// node is the name of the only node that can use it; empty if there are several, and for sums.
	Node string `json:"node,omitempty"`
	// nodeState is why pods cannot use what is on the node: Missing (there is no Node of that name), NotReady or
	// Cordoned; empty otherwise.
	NodeState NodeState `json:"nodeState,omitempty"`
	// zone is the value of the label topology.kubernetes.io/zone of all nodes that can use it; empty if they have
	// none, or several.
	Zone string `json:"zone,omitempty"`
	// nodes is the number of nodes that can use it; of a sum, the number of those that have storage of their own.
	Nodes int `json:"nodes"`
}

// NodeState is why pods cannot use what is on a node.
type NodeState string

// The states.
const (
	NodeMissing  NodeState = "Missing"
	NodeNotReady NodeState = "NotReady"
	NodeCordoned NodeState = "Cordoned"
)

// StorageMapAmount is a number of volumes and the sum of their capacities.
type StorageMapAmount struct {
	Volumes int   `json:"volumes"`
	Bytes   int64 `json:"bytes"`
}

// StorageMapRow is the volumes of a class in a place. Each volume counts in total and in one of free, reserved,
// bound, cleaning and other.
type StorageMapRow struct {
	StorageMapPlace `json:",inline"`
	// class is the storage class; empty for volumes without one, and for sums.
	Class string `json:"class,omitempty"`

	// total is all volumes.
	Total StorageMapAmount `json:"total"`
	// free volumes can be taken by a claim.
	Free StorageMapAmount `json:"free"`
	// largestFreeBytes is the capacity of the largest free volume.
	LargestFreeBytes int64 `json:"largestFreeBytes"`
	// reserved volumes have a claimRef, and are not bound yet.
	Reserved StorageMapAmount `json:"reserved"`
	// bound volumes have a claim.
	Bound StorageMapAmount `json:"bound"`
	// cleaning volumes are released, and are cleaned or deleted.
	Cleaning StorageMapAmount `json:"cleaning"`
	// other volumes are retained, failed, on a disk in trouble, or not yet observed by the PV controller.
	Other StorageMapAmount `json:"other"`
	// disksInTrouble is the number of disks that need an administrator, with or without a volume: failing, missing,
	// replaced, unproven, retained, failed, degraded, or bound with a reason.
	DisksInTrouble int `json:"disksInTrouble"`
	// disksWithoutVolume is the number of disks that are skipped, or not published yet.
	DisksWithoutVolume int `json:"disksWithoutVolume"`
}

// StorageMapNetwork is the volumes of a class that every node can use.
type StorageMapNetwork struct {
	// class is the storage class; empty for volumes without one.
	Class string `json:"class,omitempty"`
	// total is all volumes, bound those with a claim.
	Total StorageMapAmount `json:"total"`
	Bound StorageMapAmount `json:"bound"`
}

// StorageMapCapacity is what a CSI driver can still provision for a class in a place.
type StorageMapCapacity struct {
	StorageMapPlace `json:",inline"`
	// class is the storage class.
	Class string `json:"class"`
	// bytes is the capacity that the driver reports; absent if it reports none.
	Bytes *int64 `json:"bytes,omitempty"`
	// largestBytes is the largest volume that can be provisioned; absent if it is not limited further.
	LargestBytes *int64 `json:"largestBytes,omitempty"`
	// provisioning are the claims whose volumes are being provisioned on the node. bytes may already be without them.
	Provisioning StorageMapAmount `json:"provisioning"`
}

// StorageMapLocalDisks are the LocalDisks of a place that no class has.
type StorageMapLocalDisks struct {
	StorageMapPlace `json:",inline"`
	// eligible is the number of disks that nothing uses, eligibleBytes their size, and largestEligibleBytes that of the
	// largest one.
	Eligible             int   `json:"eligible"`
	EligibleBytes        int64 `json:"eligibleBytes"`
	LargestEligibleBytes int64 `json:"largestEligibleBytes"`
	// ineligible is the number of disks that cannot be used as they are.
	Ineligible int `json:"ineligible"`
	// missing is the number of disks that are not attached.
	Missing int `json:"missing"`
	// degraded is the number of all of these that show signs of failure, failing that of those that are failing.
	Degraded int `json:"degraded"`
	Failing  int `json:"failing"`
}

// WaitingPod is a pod without a node that waits for storage.
type WaitingPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// since is when it was last found not to be schedulable, or when it was created.
	Since metav1.Time `json:"since"`
	// claims are its claims that are not bound.
	Claims []WaitingClaim `json:"claims,omitempty"`
	// message is what its scheduler says.
	Message string `json:"message,omitempty"`
}

// WaitingClaim is a claim that is not bound.
type WaitingClaim struct {
	Name  string `json:"name"`
	Class string `json:"class,omitempty"`
	// bytes is the request.
	Bytes int64 `json:"bytes"`
	// missing: there is no such claim.
	Missing bool `json:"missing,omitempty"`
}

// StorageMapDisk is a disk of a LocalDiskReport, or a volume of one node without such a disk.
type StorageMapDisk struct {
	Node string `json:"node"`
	// class is the storage class.
	Class string `json:"class,omitempty"`
	// name is the entry's name in the folder of the class; empty without a report.
	Name string `json:"name,omitempty"`
	// path is the path on the node.
	Path string `json:"path,omitempty"`
	// bytes is the size of the disk, or the capacity of the volume if there is no report.
	Bytes int64 `json:"bytes"`
	// identity is that of the disk.
	Identity string `json:"identity,omitempty"`
	// state is that of the report, or the phase of the volume.
	State string `json:"state"`
	// use is the state of the disk and its volume in one word.
	Use StorageMapUse `json:"use"`
	// reason is that of the report.
	Reason string `json:"reason,omitempty"`
	// trouble: the disk needs an administrator.
	Trouble bool `json:"trouble,omitempty"`
	// volume is the PersistentVolume.
	Volume string `json:"volume,omitempty"`
	// claim is the claim of the volume, as namespace/name.
	Claim string `json:"claim,omitempty"`
	// pods use the claim, as namespace/name, sorted.
	Pods []string `json:"pods,omitempty"`
}

// StorageMapUse is how a disk is used, or why it cannot be.
type StorageMapUse string

// The uses. Each disk has one: that of its trouble, else that of its volume, else that of its state.
const (
	UseFree         StorageMapUse = "Free"         // a claim can take the volume
	UseReserved     StorageMapUse = "Reserved"     // the volume has a claimRef, and is not bound yet
	UseBound        StorageMapUse = "Bound"        // the volume has a claim
	UseCleaning     StorageMapUse = "Cleaning"     // the volume is released, and the disk is cleaned or the volume deleted
	UseMissing      StorageMapUse = "Missing"      // the volume has no disk
	UseReplaced     StorageMapUse = "Replaced"     // the volume has another disk
	UseFailing      StorageMapUse = "Failing"      // the disk is failing
	UseNotPublished StorageMapUse = "NotPublished" // there is no volume: the disk is skipped, or not published yet
	UseOther        StorageMapUse = "Other"        // retained, unproven, failed, or not yet observed by the PV controller
)
