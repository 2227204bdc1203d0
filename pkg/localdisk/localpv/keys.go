// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localpv

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"
)

// What is written on volumes.
const (
	// Finalizer is on every volume from its creation on, since none can be added
	// once deletion has begun. It stays until the disk is clean, or is given up.
	Finalizer = "stowage.dev/local-volume"

	// NodeLabel holds NodeHash of the volume's node.
	NodeLabel = "stowage.dev/node"
	// NodeNameLabel holds the name of the volume's node, for users; it is missing where the
	// name is too long for a label's value.
	NodeNameLabel = "stowage.dev/node-name"

	// NodeNameAnnotation holds the name of the volume's node.
	NodeNameAnnotation = "stowage.dev/node-name"
	// ProvisionedByAnnotation holds ProvisionedBy of the volume's node. It must never
	// be missing nor begin with kubernetes.io/, for then the PersistentVolume
	// controller takes the volume for one of its own.
	ProvisionedByAnnotation = "pv.kubernetes.io/provisioned-by"
	// AdoptedFromAnnotation holds what ProvisionedByAnnotation said before the volume
	// was adopted.
	AdoptedFromAnnotation = "stowage.dev/adopted-from"
	// IdentityAnnotation holds the identity of the disk that was published.
	IdentityAnnotation = "stowage.dev/disk-identity"
	// BytesAnnotation holds the disk's size in bytes, which the capacity rounds down.
	BytesAnnotation = "stowage.dev/disk-bytes"
	// GenerationAnnotation holds the volume's generation.
	GenerationAnnotation = "stowage.dev/generation"
	// PathAnnotation holds the path of the volume's slot on the node, if spec.local.path is
	// a link (disk.LinkPath).
	PathAnnotation = "stowage.dev/disk-path"
	// SameFilesystemAnnotation is for administrators: the file system that is on the
	// volume's device now ("ext4:<UUID>"), if it is the volume's.
	SameFilesystemAnnotation = "stowage.dev/same-filesystem"
	// SameDiskAnnotation is for administrators: the identity of what is at the
	// volume's path now, if that is the disk that was published.
	SameDiskAnnotation = "stowage.dev/same-disk"
	// DiskAnnotation holds a disk.Mark, as long as the volume's disk is not where the
	// volume says: whoever places pods is to keep them from the volume.
	DiskAnnotation = "stowage.dev/disk"

	// SameMachineAnnotation is for administrators, on the first page of a node's
	// LocalDiskReport: OLD:NEW, as messages give them, if the machine that was OLD is NEW
	// since its mainboard was exchanged, and has the disks that it had.
	SameMachineAnnotation = "stowage.dev/same-machine"

	// PublishRetainedAnnotation is for administrators, on the first page of a node's
	// LocalDiskReport: disk.AcknowledgementOf data, separated by commas, that may be
	// published.
	PublishRetainedAnnotation = "stowage.dev/publish-retained"
)

// provisioner is what ProvisionedBy begins with.
const provisioner = "stowage.dev/local-"

// NodeHash is what stands for a node in labels, whose values are too short for node
// names: 128 bits of the name's SHA-256, in 32 hexadecimal digits.
func NodeHash(node string) string {
	sum := sha256.Sum256([]byte(node))
	return hex.EncodeToString(sum[:16])
}

// NodeLabels are the labels that name a volume's node.
func NodeLabels(node string) map[string]string {
	labels := map[string]string{NodeLabel: NodeHash(node)}
	if len(node) <= validation.LabelValueMaxLength {
		labels[NodeNameLabel] = node
	}
	return labels
}

// Selector is the label selector that finds the volumes of a node, and of no other
// but for a collision of hashes, which Owned sees through.
func Selector(node string) string { return NodeLabel + "=" + NodeHash(node) }

// ProvisionedBy is the name of a node's agent as a provisioner.
func ProvisionedBy(node string) string { return provisioner + node }
