// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Fit is how many replicas of a workload a scheduler would place: kubectl stowage fit.
type Fit struct {
	metav1.TypeMeta `json:",inline"`

	// verdict is the answer.
	Verdict FitVerdict `json:"verdict"`
	// sentence is the answer in words.
	Sentence string `json:"sentence"`
	// unknown is why the verdict is Unknown.
	Unknown []string `json:"unknown,omitempty"`
	// workload is the object with the pods.
	Workload FitWorkload `json:"workload"`
	// scheduler is the spec.schedulerName of the pods, configuration where its configuration was read.
	Scheduler     string `json:"scheduler"`
	Configuration string `json:"configuration"`
	// requested is the number of replicas. most: it is the limit of --replicas max, and not all must fit.
	Requested int  `json:"requested"`
	Most      bool `json:"most,omitempty"`
	// placed is the number of replicas that have a node; running is how many of them have it already.
	Placed  int `json:"placed"`
	Running int `json:"running"`
	// replicas are those that were placed or tried, in order.
	Replicas []FitReplica `json:"replicas"`
	// missing is why the first replica without a node has none, with the replicas before it placed.
	Missing *PodReport `json:"missing,omitempty"`
	// eligibleNodes is the number of nodes that the affinity and the tolerations of the pods admit.
	EligibleNodes int `json:"eligibleNodes"`
	// left is the storage of the eligible nodes once the replicas are placed, by class; absent if the scheduler
	// does not use VolumeTopology.
	Left []FitLeft `json:"left,omitempty"`
	// unseen is what could not be read, of what the answer depends on.
	Unseen []string `json:"unseen,omitempty"`
}

// FitVerdict is whether replicas fit.
type FitVerdict string

// The verdicts.
const (
	// Fits: all replicas would be placed; with most, at least one.
	Fits FitVerdict = "Fits"
	// DoesNotFit: a replica would not be placed.
	DoesNotFit FitVerdict = "DoesNotFit"
	// FitUnknown: what could not be read or simulated can change the answer.
	FitUnknown FitVerdict = "Unknown"
)

// FitWorkload is an object with pods. Kind and name are absent for pods of --claims, which have none.
type FitWorkload struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name,omitempty"`
}

// FitReplica is a pod.
type FitReplica struct {
	Name string `json:"name"`
	// node is where it would be placed, or where it is; empty if it fits no node.
	Node string `json:"node,omitempty"`
	// running: it is on the node already.
	Running bool `json:"running,omitempty"`
	// claims are those that it uses.
	Claims []FitClaim `json:"claims,omitempty"`
}

// FitClaim is a claim of a replica.
type FitClaim struct {
	Name string `json:"name"`
	// class is the storage class.
	Class string `json:"class,omitempty"`
	// bytes is the request.
	Bytes int64 `json:"bytes"`
	// volume is the PersistentVolume that the claim has or would have; empty if it is provisioned or not known.
	Volume string `json:"volume,omitempty"`
	// volumeBytes is the capacity of the volume.
	VolumeBytes int64 `json:"volumeBytes,omitempty"`
	// bound: the claim has the volume already.
	Bound bool `json:"bound,omitempty"`
	// provisioned: the volume would be provisioned on the node.
	Provisioned bool `json:"provisioned,omitempty"`
}

// FitLeft is free storage of a class, in bytes.
type FitLeft struct {
	Class string `json:"class"`
	// volumes is the number of free PersistentVolumes, bytes their sum, and largestBytes the capacity of the largest.
	Volumes      int   `json:"volumes"`
	Bytes        int64 `json:"bytes"`
	LargestBytes int64 `json:"largestBytes"`
	// provisions: the class has a provisioner.
	Provisions bool `json:"provisions,omitempty"`
	// capacityBytes is what the provisioner's driver reports, less what is reserved; largestCapacityBytes is that of
	// the largest volume. They are absent if the driver reports no capacity.
	CapacityBytes        *int64 `json:"capacityBytes,omitempty"`
	LargestCapacityBytes *int64 `json:"largestCapacityBytes,omitempty"`
}
