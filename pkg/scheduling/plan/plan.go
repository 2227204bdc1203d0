// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan says, as data and pure functions, how the claims of one pod
// become bound: which API objects have to look how, what undoes a write, and
// how far a binding has come (or why it has failed) given what is observed.
//
// The desired objects are those that the PV controller of kube-controller-manager
// writes, so that it can run beside us, take over at any point, or be absent:
//
//	step  object                     what is written
//	1     PersistentVolume           spec.claimRef with the claim's UID
//	2     PersistentVolumeClaim      spec.volumeName and bind-completed
//	3     both, status subresource   phase Bound and what belongs to it
//
// Nothing here talks to an API server, reads a clock or logs. Functions never
// change their arguments: what they return to be written is always a copy.
package plan

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations that the binding protocol between scheduler, PV controller and
// external provisioners consists of. Only AnnSelectedNode and the provisioner
// annotations have meaningful values; of the others presence counts.
const (
	// AnnBindCompleted on a claim: it is bound to spec.volumeName for good.
	AnnBindCompleted = "pv.kubernetes.io/bind-completed"
	// AnnBoundByController on a volume or claim: the reference to the other
	// object was made by a controller, not by a user, and may be taken back.
	AnnBoundByController = "pv.kubernetes.io/bound-by-controller"
	// AnnSelectedNode on a claim: the node to provision a volume for.
	AnnSelectedNode = "volume.kubernetes.io/selected-node"
	// AnnStorageProvisioner on a claim: who is to provision it.
	AnnStorageProvisioner = "volume.kubernetes.io/storage-provisioner"
	// AnnBetaStorageProvisioner is the old name of AnnStorageProvisioner;
	// provisioners of before Kubernetes 1.23 look only at this one.
	AnnBetaStorageProvisioner = "volume.beta.kubernetes.io/storage-provisioner"
	// AnnPreResizeCapacity on a volume: its file system's size, smaller than
	// spec.capacity until the node has resized it.
	AnnPreResizeCapacity = "volume.alpha.kubernetes.io/pre-resize-capacity"
)

// Plan is how one pod's unbound claims get bound on one node. It is immutable
// once made, and so is everything it points to.
type Plan struct {
	// Pod is the pod the plan is for, PodUID which pod of that name.
	Pod    types.NamespacedName
	PodUID types.UID
	// Node is the node that the pod is to run on.
	Node string
	// Bindings are claims that get a volume that exists; each claim and each
	// volume occurs once.
	Bindings []Binding
	// Provisions are claims that get a volume still to be made; no claim is
	// in both lists.
	Provisions []Provision
}

// Binding gives an existing volume to a claim.
type Binding struct {
	// Claim and Volume are as they were seen when they were reserved.
	// Volume.ResourceVersion is what was reserved: the volume is written on
	// that version, so that nobody who came first is overwritten.
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume
}

// Provision has a volume made for a claim, on the plan's node.
type Provision struct {
	// Claim is as it was seen when it was reserved.
	Claim *v1.PersistentVolumeClaim
	// Provisioner is the value of the two storage-provisioner annotations.
	// Empty for in-tree provisioners (kubernetes.io/…): for these the PV
	// controller finds out the name (CSI migration) and writes it.
	Provisioner string
}

// Empty says that there is nothing to write: all claims were bound already.
func (p *Plan) Empty() bool {
	return len(p.Bindings) == 0 && len(p.Provisions) == 0
}

// claimName is the claim as users know it: namespace/name.
func claimName(c *v1.PersistentVolumeClaim) string {
	return c.Namespace + "/" + c.Name
}
