// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
