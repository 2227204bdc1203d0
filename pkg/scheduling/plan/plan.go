// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan computes, as data and pure functions, how the claims of one pod become
// bound: the desired API objects, how to undo a write, and the progress or failure of a
// binding given the observed objects.
//
// The desired objects are those that the PV controller of kube-controller-manager writes,
// so that it can run concurrently, complete a binding at any point, or be absent:
//
//	step  object                     what is written
//	1     PersistentVolume           spec.claimRef with the claim's UID
//	2     PersistentVolumeClaim      spec.volumeName and bind-completed
//	3     both, status subresource   phase Bound and what belongs to it
//
// Nothing here calls an API server, reads a clock or logs. Functions do not change their
// arguments: what they return to be written is always a copy.
package plan

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations of the binding protocol between scheduler, PV controller and external
// provisioners. Only the values of AnnSelectedNode and of the provisioner annotations
// matter; the others are set or not.
const (
	// AnnBindCompleted on a claim: its binding to spec.volumeName is final.
	AnnBindCompleted = "pv.kubernetes.io/bind-completed"
	// AnnBoundByController on a volume or claim: the reference to the other object was
	// set by a controller, not by a user, and may be removed.
	AnnBoundByController = "pv.kubernetes.io/bound-by-controller"
	// AnnSelectedNode on a claim: the node to provision a volume for.
	AnnSelectedNode = "volume.kubernetes.io/selected-node"
	// AnnStorageProvisioner on a claim: the provisioner in charge.
	AnnStorageProvisioner = "volume.kubernetes.io/storage-provisioner"
	// AnnBetaStorageProvisioner is the old name of AnnStorageProvisioner; provisioners
	// older than Kubernetes 1.23 read only this one.
	AnnBetaStorageProvisioner = "volume.beta.kubernetes.io/storage-provisioner"
	// AnnPreResizeCapacity on a volume: the size of its file system, smaller than
	// spec.capacity until the node has resized it.
	AnnPreResizeCapacity = "volume.alpha.kubernetes.io/pre-resize-capacity"
)

// Plan is how one pod's unbound claims become bound on one node, or a claim without a pod. It
// is immutable, and so is everything it points to.
type Plan struct {
	// Pod is the pod the plan is for, PodUID distinguishes pods of that name. Both are zero
	// for a claim that is bound without a pod.
	Pod    types.NamespacedName
	PodUID types.UID
	// Node is the node that the pod is to run on. Without a pod it is the node that must be
	// able to use the volumes, empty if any may; not empty if there are provisions.
	Node string
	// Bindings are claims that get an existing volume; each claim and each volume occurs
	// once.
	Bindings []Binding
	// Provisions are claims whose volume is provisioned; no claim is in both lists.
	Provisions []Provision
}

// Binding assigns an existing volume to a claim.
type Binding struct {
	// Claim and Volume are the versions that were reserved. The volume is written on
	// Volume.ResourceVersion, so that no earlier write is overwritten.
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume
}

// Provision requests a volume for a claim, on the plan's node.
type Provision struct {
	// Claim is the version that was reserved.
	Claim *v1.PersistentVolumeClaim
	// Provisioner is the value of the two storage-provisioner annotations. It is empty
	// for in-tree provisioners (kubernetes.io/…): the PV controller determines their name
	// (CSI migration) and writes it.
	Provisioner string
}

// Subject names whose volumes are bound, as namespace/name: the pod, else the first claim.
func (p *Plan) Subject() string {
	switch {
	case p.Pod.Name != "":
		return p.Pod.String()
	case len(p.Bindings) > 0:
		return claimName(p.Bindings[0].Claim)
	case len(p.Provisions) > 0:
		return claimName(p.Provisions[0].Claim)
	}
	return ""
}

// Empty reports whether there is nothing to write because all claims are bound.
func (p *Plan) Empty() bool {
	return len(p.Bindings) == 0 && len(p.Provisions) == 0
}

// SelectNode requests a volume on the node: it sets selected-node on the claim and, if
// the plan names the provisioner, both annotations that an external provisioner waits
// for.
//
// live is the newest known version, or the one read after a conflict (nil: not found). A
// selected-node that names another node stays, because a volume may be in creation there,
// unless that node is gone: gone is the name of a node that the API server reported as
// not found, or empty.
func (p Provision) SelectNode(live *v1.PersistentVolumeClaim, node, gone string) (want *v1.PersistentVolumeClaim, write bool, why *Failure) {
	if why := sameClaim(p.Claim, live, ""); why != nil {
		return nil, false, why
	}
	selected := live.Annotations[AnnSelectedNode]
	switch {
	case live.Spec.VolumeName != "" && selected == node:
		return live, false, nil
	case live.Spec.VolumeName != "":
		return nil, false, p.fail(ClaimBoundElsewhere, node, live.Spec.VolumeName)
	case live.DeletionTimestamp != nil:
		return nil, false, p.fail(ClaimDeleting, node, "")
	case live.Status.Phase == v1.ClaimLost:
		return nil, false, p.fail(ClaimLost, node, "")
	case selected != "" && selected != node && selected != gone:
		return nil, false, p.fail(SelectedElsewhere, node, selected)
	}
	named := p.Provisioner == "" || live.Annotations[AnnStorageProvisioner] == p.Provisioner
	if selected == node && named {
		return live, false, nil
	}
	want = live.DeepCopy()
	metav1.SetMetaDataAnnotation(&want.ObjectMeta, AnnSelectedNode, node)
	if !named {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, AnnStorageProvisioner, p.Provisioner)
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, AnnBetaStorageProvisioner, p.Provisioner)
	}
	return want, true, nil
}

// UnselectNode undoes SelectNode. written is the API server's response to our own write;
// the result must be written on that resourceVersion or not at all. ok is false if a
// provisioner may have started, because the claim names one: the volume that it creates
// would have no owner.
func (p Provision) UnselectNode(written *v1.PersistentVolumeClaim) (want *v1.PersistentVolumeClaim, ok bool) {
	for _, key := range []string{AnnStorageProvisioner, AnnBetaStorageProvisioner} {
		if _, set := written.Annotations[key]; set {
			return nil, false
		}
	}
	want = written.DeepCopy()
	restore(&want.ObjectMeta, p.Claim.Annotations, AnnSelectedNode)
	return want, true
}

// Binding returns the binding of a provisioned volume: claim is the newest known version
// of the plan's claim.
func (p Provision) Binding(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) Binding {
	return Binding{Claim: claim, Volume: volume}
}

func (p Provision) fail(code FailureCode, node, other string) *Failure {
	return &Failure{Code: code, Claim: claimName(p.Claim), Node: node, Other: other}
}
