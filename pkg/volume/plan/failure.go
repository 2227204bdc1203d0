// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "fmt"

// FailureCode says why a binding cannot come about any more.
type FailureCode string

// The reasons for which a binding fails. Every one of them means that the pod
// has to be scheduled again.
const (
	// ClaimGone: the claim was deleted.
	ClaimGone FailureCode = "ClaimGone"
	// ClaimReplaced: the claim was deleted, another of its name created.
	ClaimReplaced FailureCode = "ClaimReplaced"
	// ClaimDeleting: the claim is being deleted and was not bound yet.
	ClaimDeleting FailureCode = "ClaimDeleting"
	// ClaimChanged: what the claim asks for is not what was reserved for.
	ClaimChanged FailureCode = "ClaimChanged"
	// ClaimBoundElsewhere: the claim is bound to another volume (Other).
	ClaimBoundElsewhere FailureCode = "ClaimBoundElsewhere"
	// ClaimLost: the claim has lost its volume.
	ClaimLost FailureCode = "ClaimLost"
	// VolumeGone: the volume was deleted.
	VolumeGone FailureCode = "VolumeGone"
	// VolumeReplaced: the volume was deleted, another of its name created.
	VolumeReplaced FailureCode = "VolumeReplaced"
	// VolumeDeleting: the volume is being deleted.
	VolumeDeleting FailureCode = "VolumeDeleting"
	// VolumeChanged: the volume is not what was reserved any more.
	VolumeChanged FailureCode = "VolumeChanged"
	// VolumeUnavailable: the volume's phase (Other) is not one to bind from.
	VolumeUnavailable FailureCode = "VolumeUnavailable"
	// VolumeClaimed: the volume belongs to another claim (Other).
	VolumeClaimed FailureCode = "VolumeClaimed"
	// ClaimRefReset: somebody took back the volume's claimRef.
	ClaimRefReset FailureCode = "ClaimRefReset"
	// ProvisioningFailed: the provisioner removed selected-node, its way to
	// say that it cannot make the volume on that node.
	ProvisioningFailed FailureCode = "ProvisioningFailed"
	// SelectedElsewhere: the claim is to be provisioned on another node (Other).
	SelectedElsewhere FailureCode = "SelectedElsewhere"
	// VolumeOffNode: the volume's node affinity does not admit the node.
	VolumeOffNode FailureCode = "VolumeOffNode"
	// NodeGone: the node was deleted.
	NodeGone FailureCode = "NodeGone"
	// PodGone: the pod was deleted.
	PodGone FailureCode = "PodGone"
)

// Failure is why a binding cannot come about. Only names of objects are in it.
type Failure struct {
	Code FailureCode
	// Claim ("namespace/name") and Volume are the binding's, empty where the
	// failure is not about one.
	Claim, Volume string
	// Pod ("namespace/name") and Node are the plan's, where they matter.
	Pod, Node string
	// Other is what was found in the place of ours; see the codes.
	Other string
}

var _ error = (*Failure)(nil)

// Error is fit to be read by the pod's owner in an event.
func (f *Failure) Error() string {
	if f.Claim == "" {
		return f.detail()
	}
	return fmt.Sprintf("binding claim %q: %s", f.Claim, f.detail())
}

func (f *Failure) detail() string {
	switch f.Code {
	case ClaimGone:
		return "the claim was deleted"
	case ClaimReplaced:
		return "the claim was deleted and created anew"
	case ClaimDeleting:
		return "the claim is being deleted"
	case ClaimChanged:
		return "the claim was changed while a volume was chosen for it"
	case ClaimBoundElsewhere:
		return fmt.Sprintf("the claim was bound to volume %q instead of %q", f.Other, f.Volume)
	case ClaimLost:
		return "the claim has lost its volume"
	case VolumeGone:
		return fmt.Sprintf("volume %q was deleted", f.Volume)
	case VolumeReplaced:
		return fmt.Sprintf("volume %q was deleted and created anew", f.Volume)
	case VolumeDeleting:
		return fmt.Sprintf("volume %q is being deleted", f.Volume)
	case VolumeChanged:
		return fmt.Sprintf("volume %q was changed after it was chosen", f.Volume)
	case VolumeUnavailable:
		return fmt.Sprintf("volume %q is %s, no longer Available", f.Volume, f.Other)
	case VolumeClaimed:
		return fmt.Sprintf("volume %q was claimed by %q", f.Volume, f.Other)
	case ClaimRefReset:
		return fmt.Sprintf("the claimRef of volume %q was taken back", f.Volume)
	case ProvisioningFailed:
		return fmt.Sprintf("the provisioner cannot make a volume on node %q", f.Node)
	case SelectedElsewhere:
		return fmt.Sprintf("the claim is being provisioned on node %q, not on %q", f.Other, f.Node)
	case VolumeOffNode:
		return fmt.Sprintf("volume %q cannot be reached from node %q", f.Volume, f.Node)
	case NodeGone:
		return fmt.Sprintf("node %q was deleted while volumes were bound for pod %q", f.Node, f.Pod)
	case PodGone:
		return fmt.Sprintf("pod %q was deleted while its volumes were bound", f.Pod)
	default:
		return string(f.Code)
	}
}
