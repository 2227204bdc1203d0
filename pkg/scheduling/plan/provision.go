// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SelectNode asks for a volume to be made on the node: the claim with
// selected-node and, where the plan names the provisioner, both annotations
// that an external provisioner waits for, so that nobody has to add them.
//
// It decides on live, the newest version known or the one read after a conflict
// (nil: not found). A selected-node that names another node stays, because a
// volume may be on its way there, unless that node is gone: gone is the name of
// a node which the API server has been asked for and does not have, or empty.
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

// UnselectNode undoes SelectNode. written is what the API server answered to
// our own write; the result must be written on that resourceVersion or not at
// all. ok is false when a provisioner may have begun, because the claim tells
// it to: the volume that it is making would belong to nobody.
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

// Binding is what remains to be done once the volume has been made: claim is
// the newest version known of the plan's claim.
func (p Provision) Binding(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) Binding {
	return Binding{Claim: claim, Volume: volume}
}

func (p Provision) fail(code FailureCode, node, other string) *Failure {
	return &Failure{Code: code, Claim: claimName(p.Claim), Node: node, Other: other}
}
