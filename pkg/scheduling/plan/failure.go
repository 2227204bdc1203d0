// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// FailureCode is why a binding cannot be completed.
type FailureCode string

// Reasons why a binding fails. After each of them the pod has to be scheduled again.
const (
	// ClaimGone: the claim was deleted.
	ClaimGone FailureCode = "ClaimGone"
	// ClaimReplaced: the claim was deleted, another of the same name created.
	ClaimReplaced FailureCode = "ClaimReplaced"
	// ClaimDeleting: the claim is being deleted and was not bound yet.
	ClaimDeleting FailureCode = "ClaimDeleting"
	// ClaimChanged: the claim's spec differs from the one that was reserved for.
	ClaimChanged FailureCode = "ClaimChanged"
	// ClaimBoundElsewhere: the claim is bound to another volume (Other).
	ClaimBoundElsewhere FailureCode = "ClaimBoundElsewhere"
	// ClaimLost: the claim has lost its volume.
	ClaimLost FailureCode = "ClaimLost"
	// VolumeGone: the volume was deleted.
	VolumeGone FailureCode = "VolumeGone"
	// VolumeReplaced: the volume was deleted, another of the same name created.
	VolumeReplaced FailureCode = "VolumeReplaced"
	// VolumeDeleting: the volume is being deleted.
	VolumeDeleting FailureCode = "VolumeDeleting"
	// VolumeChanged: the volume no longer matches what was reserved.
	VolumeChanged FailureCode = "VolumeChanged"
	// VolumeUnavailable: the volume's phase (Other) does not allow binding.
	VolumeUnavailable FailureCode = "VolumeUnavailable"
	// VolumeClaimed: the volume belongs to another claim (Other).
	VolumeClaimed FailureCode = "VolumeClaimed"
	// ClaimRefReset: another writer removed the volume's claimRef.
	ClaimRefReset FailureCode = "ClaimRefReset"
	// ProvisioningFailed: the provisioner removed selected-node, which means that it
	// cannot create the volume for that node.
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

// Failure is why a binding cannot be completed. It contains only names of objects.
type Failure struct {
	Code FailureCode
	// Claim ("namespace/name") and Volume are the binding's, empty if the failure does
	// not concern one.
	Claim, Volume string
	// Node and Subject are the plan's, if relevant.
	Node, Subject string
	// Other is what was found instead; see the codes.
	Other string
}

var _ error = (*Failure)(nil)

// Error returns the text for events of the pod.
func (f *Failure) Error() string {
	text, ok := texts[f.Code]
	if !ok {
		text = string(f.Code)
	}
	text = strings.NewReplacer(
		"{volume}", strconv.Quote(f.Volume),
		"{node}", strconv.Quote(f.Node),
		"{subject}", strconv.Quote(f.Subject),
		"{other}", strconv.Quote(f.Other),
	).Replace(text)
	if f.Claim == "" {
		return text
	}
	return fmt.Sprintf("binding claim %q: %s", f.Claim, text)
}

// texts are the messages of the codes; read only.
var texts = map[FailureCode]string{
	ClaimGone:           "the claim was deleted",
	ClaimReplaced:       "the claim was deleted and recreated",
	ClaimDeleting:       "the claim is being deleted",
	ClaimChanged:        "the claim was changed while a volume was chosen for it",
	ClaimBoundElsewhere: "the claim was bound to volume {other} meanwhile",
	ClaimLost:           "the claim has lost its volume",
	VolumeGone:          "volume {volume} was deleted",
	VolumeReplaced:      "volume {volume} was deleted and recreated",
	VolumeDeleting:      "volume {volume} is being deleted",
	VolumeChanged:       "volume {volume} was changed after it was chosen",
	VolumeUnavailable:   "volume {volume} is {other}, no longer Available",
	VolumeClaimed:       "volume {volume} was claimed by {other}",
	ClaimRefReset:       "the claimRef of volume {volume} was removed",
	ProvisioningFailed:  "provisioning failed: the provisioner rejected node {node}",
	SelectedElsewhere:   "the claim is being provisioned on node {other}",
	VolumeOffNode:       "the node affinity of volume {volume} does not admit node {node}",
	NodeGone:            "node {node} was deleted while the volumes of {subject} were bound",
	PodGone:             "pod {subject} was deleted while its volumes were bound",
}
