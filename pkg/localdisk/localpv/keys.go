// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localpv

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"

	"stowage.dev/stowage/pkg/apis/wellknown"
)

// ProvisionedByAnnotation has the value ProvisionedBy of the volume's node. It must exist and
// must not begin with kubernetes.io/: the PersistentVolume controller takes volumes with such
// a value for its own.
const ProvisionedByAnnotation = "pv.kubernetes.io/provisioned-by"

// provisioner is what ProvisionedBy begins with.
const provisioner = "stowage.dev/local-"

// NodeHash identifies a node in labels, whose values are too short for node names: 128 bits of
// the name's SHA-256, in 32 hexadecimal digits.
func NodeHash(node string) string {
	sum := sha256.Sum256([]byte(node))
	return hex.EncodeToString(sum[:16])
}

// NodeLabels are the labels that name a volume's node.
func NodeLabels(node string) map[string]string {
	labels := map[string]string{wellknown.NodeLabel: NodeHash(node)}
	if len(node) <= validation.LabelValueMaxLength {
		labels[wellknown.NodeNameLabel] = node
	}
	return labels
}

// Selector is the label selector that finds the volumes of a node, and of no other
// but for a collision of hashes, which Owned sees through.
func Selector(node string) string { return wellknown.NodeLabel + "=" + NodeHash(node) }

// ProvisionedBy returns the name of a node's provisioner.
func ProvisionedBy(node string) string { return provisioner + node }
