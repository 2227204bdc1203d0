// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package localpv

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Owned reports whether a volume belongs to a node's provisioner, which ignores all others:
// label, node name and provisioner must all match.
func Owned(pv *corev1.PersistentVolume, node string) bool {
	return pv.Labels[wellknown.NodeLabel] == NodeHash(node) &&
		pv.Annotations[wellknown.NodeNameAnnotation] == node &&
		pv.Annotations[ProvisionedByAnnotation] == ProvisionedBy(node)
}

// Excludes reports whether a volume's node affinity names hostnames, and not this one.
func Excludes(pv *corev1.PersistentVolume, hostname string) bool {
	affinity := pv.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil || len(affinity.Required.NodeSelectorTerms) == 0 {
		return false
	}
	excludes := func(e corev1.NodeSelectorRequirement) bool {
		return e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn && !slices.Contains(e.Values, hostname)
	}
	return !slices.ContainsFunc(affinity.Required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(t.MatchExpressions, excludes)
	})
}

// GenerationOf returns the generation of a volume: FirstGeneration if it states none, as an
// adopted one, so that its successor has a higher one.
func GenerationOf(pv *corev1.PersistentVolume) int64 {
	return max(number(pv.Annotations[wellknown.GenerationAnnotation]), FirstGeneration)
}

// VolumeOf reads a volume. directories has the discovery directory, on the node, of every
// configured class. A volume whose class or path is no longer configured is read too, with the
// last element of its path as the slot's name (see Configured); a volume without a local path
// is an error.
func VolumeOf(pv *corev1.PersistentVolume, directories map[string]string) (disk.Volume, *disk.Problem) {
	if pv.Spec.Local == nil || pv.Spec.Local.Path == "" {
		return disk.Volume{}, disk.Problemf(disk.ForeignVolume, "volume %s has no local path", pv.Name)
	}
	capacity := pv.Spec.Capacity[corev1.ResourceStorage]
	mode := disk.Filesystem
	if pv.Spec.VolumeMode != nil {
		mode = disk.Mode(*pv.Spec.VolumeMode)
	}
	class := classOf(pv)
	hostPath, link := PathOf(pv), ""
	if hasLink(pv) {
		link = pv.Spec.Local.Path
	}
	fsType := defaultFSType
	if pv.Spec.Local.FSType != nil && *pv.Spec.Local.FSType != "" {
		fsType = *pv.Spec.Local.FSType
	}
	claimUID := ""
	if claim := pv.Spec.ClaimRef; claim != nil {
		claimUID = string(claim.UID)
	}
	return disk.Volume{
		Name:            pv.Name,
		UID:             string(pv.UID),
		ResourceVersion: pv.ResourceVersion,
		Key:             disk.Key{Class: class, Name: entry(hostPath, directories[class])},
		HostPath:        hostPath,
		Link:            link,
		FSType:          fsType,
		MountOptions:    slices.Clone(pv.Spec.MountOptions),
		Mode:            mode,
		Bytes:           capacity.Value(),
		DiskBytes:       number(pv.Annotations[wellknown.DiskBytesAnnotation]),
		Identity:        disk.Identity(pv.Annotations[wellknown.DiskIdentityAnnotation]),
		Generation:      GenerationOf(pv),
		Phase:           disk.Phase(pv.Status.Phase),
		Policy:          disk.Policy(pv.Spec.PersistentVolumeReclaimPolicy),
		Claimed:         pv.Spec.ClaimRef != nil,
		ClaimUID:        claimUID,
		Deleting:        pv.DeletionTimestamp != nil,
		Finalized:       slices.Contains(pv.Finalizers, wellknown.LocalVolumeFinalizer),
		Accepted:        disk.Identity(pv.Annotations[wellknown.SameDiskAnnotation]),
		AcceptedFormat:  pv.Annotations[wellknown.SameFilesystemAnnotation],
		Mark:            disk.Mark(pv.Annotations[wellknown.DiskAnnotation]),
	}, nil
}

// defaultFSType is what kubelet makes on the device of a local volume that names no
// file system.
const defaultFSType = "ext4"

// LinkPath is the link of a volume. Names of volumes are unique in a cluster, so nodes
// that share a /dev have different links.
func LinkPath(class, volume string) string { return disk.LinkFolder + "/" + class + "/" + volume }

// MountPath is the path of a volume whose file system the provisioner mounts.
func MountPath(class, volume string) string {
	return path.Join(disk.MountFolder, class, volume, disk.MountedFolder)
}

// hasLink reports whether a volume's path is its own link or mount, and the volume has the path
// of its slot.
func hasLink(pv *corev1.PersistentVolume) bool {
	own := []string{LinkPath(classOf(pv), pv.Name), MountPath(classOf(pv), pv.Name)}
	return slices.Contains(own, pv.Spec.Local.Path) && pv.Annotations[wellknown.DiskPathAnnotation] != ""
}

// PathOf returns the path of a volume's slot on the node: spec.local.path, or the value of
// PathAnnotation if that is a link. It is empty if the volume is not local.
func PathOf(pv *corev1.PersistentVolume) string {
	switch {
	case pv.Spec.Local == nil:
		return ""
	case hasLink(pv):
		return pv.Annotations[wellknown.DiskPathAnnotation]
	default:
		return pv.Spec.Local.Path
	}
}

// Configured reports whether the configuration still has a volume's slot: its path is that of
// an entry of its class's directory.
func Configured(volume *disk.Volume, directories map[string]string) bool {
	_, ok := within(volume.HostPath, directories[volume.Key.Class])
	return ok
}

// entry is the name of the slot that a path is of.
func entry(hostPath, directory string) string {
	if name, ok := within(hostPath, directory); ok {
		return name
	}
	return path.Base(hostPath)
}

// within is the entry of a directory that a path is of, if it is of one.
func within(hostPath, directory string) (string, bool) {
	if !path.IsAbs(directory) {
		return "", false
	}
	root := strings.TrimSuffix(path.Clean(directory), "/") + "/"
	name, found := strings.CutPrefix(path.Clean(hostPath), root)
	return name, found && name != "" && !strings.Contains(name, "/")
}

// classOf returns the class of a volume; the deprecated annotation takes precedence over the
// field, as it does for the scheduler.
func classOf(pv *corev1.PersistentVolume) string {
	if class, found := pv.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return class
	}
	return pv.Spec.StorageClassName
}

// number parses a non-negative number; 0 for anything else.
func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(value, 0)
}

// NodeHash identifies a node in labels, whose values are too short for node names: 128 bits of
// the name's SHA-256, in 32 hexadecimal digits.
func NodeHash(node string) string {
	sum := sha256.Sum256([]byte(node))
	return hex.EncodeToString(sum[:16])
}

// ProvisionedByAnnotation has the value ProvisionedBy of the volume's node. It must exist and
// must not begin with kubernetes.io/: the PersistentVolume controller takes volumes with such
// a value for its own.
const ProvisionedByAnnotation = "pv.kubernetes.io/provisioned-by"

// provisioner is what ProvisionedBy begins with.
const provisioner = "stowage.dev/local-"

// ProvisionedBy returns the name of a node's provisioner.
func ProvisionedBy(node string) string { return provisioner + node }

// Selector is the label selector that finds the volumes of a node, and of no other
// but for a collision of hashes, which Owned detects.
func Selector(node string) string { return wellknown.NodeLabel + "=" + NodeHash(node) }

// FirstGeneration is the lowest generation, and that of volumes that state none. Names as by
// Reference require counting from it; others may start at any higher number.
const FirstGeneration int64 = 1
