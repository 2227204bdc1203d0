// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PodReport is why a pod waits: kubectl stowage why pod.
type PodReport struct {
	metav1.TypeMeta `json:",inline"`

	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// state is the answer in a word.
	State PodState `json:"state"`
	// sentence is the answer.
	Sentence string `json:"sentence"`
	// scheduler is spec.schedulerName, and profile where its configuration is from.
	Scheduler string `json:"scheduler"`
	Profile   string `json:"profile,omitempty"`
	// claims are those of the pod's volumes, in the order of its volumes.
	Claims []PodClaim `json:"claims,omitempty"`
	// everywhere are reasons that hold on all nodes.
	Everywhere []PodReason `json:"everywhere,omitempty"`
	// groups are the nodes, those with equal reasons together, the largest group first. Nodes without
	// reasons fit; in state Unknown, what could be read does not exclude them.
	Groups []NodeGroup `json:"groups,omitempty"`
	// changes are changes of one object each. With any one of them the scheduler places the pod: each was
	// simulated. The smallest is the first.
	Changes []PodChange `json:"changes,omitempty"`
	// notes limit what the answer is worth, such as extenders that were not called.
	Notes []string `json:"notes,omitempty"`
	// unseen is what could not be read.
	Unseen []string `json:"unseen,omitempty"`
}

// PodState is the answer about a pod.
type PodState string

// The states.
const (
	// PodPlaced: the pod has a node.
	PodPlaced PodState = "Placed"
	// PodGated: the pod is not in the scheduler's queue.
	PodGated PodState = "Gated"
	// PodUnschedulable: no node fits.
	PodUnschedulable PodState = "Unschedulable"
	// PodFits: a node fits, and the scheduler has not placed the pod.
	PodFits PodState = "Fits"
	// PodUnknown: what the scheduler decides by could not be read, or extenders decide, too.
	PodUnknown PodState = "Unknown"
)

// PodClaim is a claim of a pod.
type PodClaim struct {
	Name string `json:"name"`
	// class and request are of the claim; empty if it does not exist.
	Class   string `json:"class,omitempty"`
	Request string `json:"request,omitempty"`
	// volume is the one that the claim is bound to; empty if none.
	Volume string `json:"volume,omitempty"`
	// state is what the claim waits for.
	State string `json:"state"`
}

// PodReason is why a plugin of the scheduler keeps the pod off nodes.
type PodReason struct {
	Plugin string `json:"plugin"`
	// message is that of the scheduler's event.
	Message string `json:"message"`
	// claim is the claim that has no volume there.
	Claim string `json:"claim,omitempty"`
	// detail is what there is, in numbers and names.
	Detail string `json:"detail,omitempty"`
	// link is the page about it.
	Link string `json:"link,omitempty"`
}

// NodeGroup is nodes with the same reasons.
type NodeGroup struct {
	// nodes are sorted.
	Nodes []string `json:"nodes"`
	// reasons are all reasons, not only the first; none if the pod fits.
	Reasons []PodReason `json:"reasons,omitempty"`
}

// PodChange is a change of one object.
type PodChange struct {
	// kind is AddVolume, AddCapacity, ShrinkClaim, Uncordon, RemoveTaint, LabelNode or LowerRequest.
	Kind string `json:"kind"`
	// node is where the pod fits then.
	Node string `json:"node"`
	// text is the change, as an instruction.
	Text string `json:"text"`
}
