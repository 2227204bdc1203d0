// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strconv"
	"strings"
)

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
	text, ok := texts[f.Code]
	if !ok {
		text = string(f.Code)
	}
	text = strings.NewReplacer(
		"{volume}", strconv.Quote(f.Volume),
		"{node}", strconv.Quote(f.Node),
		"{pod}", strconv.Quote(f.Pod),
		"{other}", strconv.Quote(f.Other),
	).Replace(text)
	if f.Claim == "" {
		return text
	}
	return fmt.Sprintf("binding claim %q: %s", f.Claim, text)
}

// texts are the failures in words; never written to.
var texts = map[FailureCode]string{
	ClaimGone:           "the claim was deleted",
	ClaimReplaced:       "the claim was deleted and created anew",
	ClaimDeleting:       "the claim is being deleted",
	ClaimChanged:        "the claim was changed while a volume was chosen for it",
	ClaimBoundElsewhere: "the claim was bound to volume {other} meanwhile",
	ClaimLost:           "the claim has lost its volume",
	VolumeGone:          "volume {volume} was deleted",
	VolumeReplaced:      "volume {volume} was deleted and created anew",
	VolumeDeleting:      "volume {volume} is being deleted",
	VolumeChanged:       "volume {volume} was changed after it was chosen",
	VolumeUnavailable:   "volume {volume} is {other}, not Available any more",
	VolumeClaimed:       "volume {volume} was claimed by {other}",
	ClaimRefReset:       "the claimRef of volume {volume} was taken back",
	ProvisioningFailed:  "provisioning failed: the provisioner gave up node {node}",
	SelectedElsewhere:   "the claim is being provisioned on node {other}",
	VolumeOffNode:       "the node affinity of volume {volume} does not admit node {node}",
	NodeGone:            "node {node} was deleted while the volumes of pod {pod} were bound",
	PodGone:             "pod {pod} was deleted while its volumes were bound",
}
