// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localpv converts a disk to a PersistentVolume, and back. It defines what the
// provisioner writes to volumes: names, labels, annotations and the finalizer.
//
// Everything here is pure; arguments are never written to.
package localpv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Node is the node that has the disk.
type Node struct {
	Name string
	// Hostname is the node's label kubernetes.io/hostname, which is not its name
	// everywhere.
	Hostname string
	// Labels are those of the node's labels that its volumes get.
	Labels map[string]string
}

// Offer is the configuration of a class's volumes.
type Offer struct {
	Mode disk.Mode
	// AccessModes defaults to ReadWriteOnce.
	AccessModes []corev1.PersistentVolumeAccessMode
	// FSType is what a device is formatted with, if Mode is Filesystem; empty leaves it to
	// kubelet. Mounted: the provisioner makes and mounts the file systems of devices.
	FSType  string
	Mounted bool
	// Labels are given to every volume. They win over the node's.
	Labels map[string]string
	Naming Naming
}

// Request is a request for the volume of a disk.
type Request struct {
	Node Node
	// Class is the StorageClass of the disk's slot; nil if it does not exist.
	Class *storagev1.StorageClass
	Disk  disk.Fact
	Offer Offer
	// Generation is FirstGeneration or higher.
	Generation int64
}

// Volume is the volume to create, or why there can be none. It shares no memory with
// the request.
func Volume(request Request) (*corev1.PersistentVolume, *disk.Problem) {
	if problem := request.check(); problem != nil {
		return nil, problem
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        request.named(),
			Labels:      request.labels(),
			Annotations: request.annotations(),
			Finalizers:  []string{wellknown.LocalVolumeFinalizer},
		},
		Spec: request.spec(),
	}, nil
}

func (r *Request) labels() map[string]string {
	labels := make(map[string]string, len(r.Node.Labels)+len(r.Offer.Labels)+2)
	maps.Copy(labels, r.Node.Labels)
	maps.Copy(labels, r.Offer.Labels)
	maps.Copy(labels, NodeLabels(r.Node.Name))
	return labels
}

func (r *Request) annotations() map[string]string {
	annotations := map[string]string{
		wellknown.NodeNameAnnotation:     r.Node.Name,
		ProvisionedByAnnotation:          ProvisionedBy(r.Node.Name),
		wellknown.DiskIdentityAnnotation: string(r.Disk.Identity),
		wellknown.DiskBytesAnnotation:    strconv.FormatInt(r.Disk.Bytes, 10),
		wellknown.GenerationAnnotation:   strconv.FormatInt(r.Generation, 10),
	}
	if r.Disk.Kind == disk.Device {
		annotations[wellknown.DiskPathAnnotation] = r.Disk.HostPath
	}
	return annotations
}

// path is the path that kubelet uses. For a device it is a link or a folder that exists only while
// the device may be used.
func (r *Request) path() string {
	switch {
	case r.Disk.Kind != disk.Device:
		return r.Disk.HostPath
	case r.Offer.Mounted:
		return MountPath(r.Class.Name, r.named())
	default:
		return LinkPath(r.Class.Name, r.named())
	}
}

func (r *Request) spec() corev1.PersistentVolumeSpec {
	mode := corev1.PersistentVolumeMode(r.Offer.Mode)
	local := &corev1.LocalVolumeSource{Path: r.path()}
	if r.Offer.Mode == disk.Filesystem && r.Offer.FSType != "" {
		fsType := r.Offer.FSType
		local.FSType = &fsType
	}
	access := slices.Clone(r.Offer.AccessModes)
	if len(access) == 0 {
		access = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	return corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{
			corev1.ResourceStorage: *resource.NewQuantity(Capacity(r.Disk.Bytes), resource.BinarySI),
		},
		AccessModes:                   access,
		PersistentVolumeReclaimPolicy: reclaimPolicy(r.Class),
		StorageClassName:              r.Class.Name,
		MountOptions:                  slices.Clone(r.Class.MountOptions),
		VolumeMode:                    &mode,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: local},
		NodeAffinity:                  onlyOn(r.Node.Hostname),
	}
}

// reclaimPolicy is a class's policy: Delete if it names none, as in its API.
func reclaimPolicy(class *storagev1.StorageClass) corev1.PersistentVolumeReclaimPolicy {
	if class.ReclaimPolicy == nil {
		return corev1.PersistentVolumeReclaimDelete
	}
	return *class.ReclaimPolicy
}

func onlyOn(hostname string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key:      corev1.LabelHostname,
				Operator: corev1.NodeSelectorOpIn,
				Values:   []string{hostname},
			}},
		}},
	}}
}

// Units of capacities, in bytes.
const (
	mebibyte = int64(1) << 20
	gibibyte = int64(1) << 30
)

// Capacity is the capacity, in bytes, of a volume on a disk of so many bytes: whole
// GiB from 10 GiB on, whole MiB from 10 MiB on, exact below. Disks that differ by a few
// sectors offer the same.
func Capacity(bytes int64) int64 {
	switch {
	case bytes >= 10*gibibyte:
		return bytes - bytes%gibibyte
	case bytes >= 10*mebibyte:
		return bytes - bytes%mebibyte
	default:
		return bytes
	}
}

// check returns why there can be no volume, or nil.
func (r *Request) check() *disk.Problem {
	switch {
	case r.Disk.Problem != nil:
		return r.Disk.Problem
	case r.Node.Name == "" || r.Node.Hostname == "":
		return disk.Problemf(disk.NotConfigured, "the node's label %s is not known, so no volume can have the node's affinity", corev1.LabelHostname)
	case r.Generation < FirstGeneration:
		return disk.Problemf(disk.BadRecord, "generation %d of the disk's volume is below %d", r.Generation, FirstGeneration)
	}
	if problem := r.checkClass(); problem != nil {
		return problem
	}
	return r.checkDisk()
}

func (r *Request) checkClass() *disk.Problem {
	if r.Class == nil || r.Class.Name != r.Disk.Class {
		return disk.Problemf(disk.ClassMissing, "StorageClass %q does not exist: create it", r.Disk.Class)
	}
	switch policy := reclaimPolicy(r.Class); policy {
	case corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain:
		return nil
	default:
		return disk.Problemf(disk.InvalidClass, "StorageClass %q has reclaimPolicy %s, which local volumes cannot have: make it Delete or Retain", r.Class.Name, policy)
	}
}

func (r *Request) checkDisk() *disk.Problem {
	d := &r.Disk
	switch {
	case !utf8.ValidString(d.HostPath) || !utf8.ValidString(d.Name):
		// Encoded, it would become another path.
		return disk.Problemf(disk.Unreadable, "the path %q is not text in UTF-8, so no volume can name it: rename the entry", d.HostPath)
	case !path.IsAbs(d.HostPath) || path.Clean(d.HostPath) != d.HostPath || path.Base(d.HostPath) != d.Name || d.Name == "/":
		return disk.Problemf(disk.OutsideDirectory, "the path %q is not that of an entry %q", d.HostPath, d.Name)
	case r.Offer.Mode != disk.Filesystem && r.Offer.Mode != disk.Block:
		return disk.Problemf(disk.WrongVolumeMode, "the class has volume mode %q: make it Filesystem or Block", r.Offer.Mode)
	case r.Offer.Mode == disk.Block && d.Kind != disk.Device:
		return disk.Problemf(disk.WrongVolumeMode, "a %s cannot be offered as a block device", d.Kind)
	case d.Bytes <= 0:
		return disk.Problemf(disk.NoCapacity, "the disk has no bytes")
	case d.Identity == "":
		return disk.Problemf(disk.IdentityUnproven, "nothing distinguishes this disk from others")
	}
	return nil
}

// named returns the name of the requested volume.
func (r *Request) named() string {
	if r.Offer.Naming == Reference && r.Generation == FirstGeneration {
		return ReferenceName(r.Node.Name, r.Disk.Key)
	}
	return Name(r.Node.Name, r.Disk.Key, r.Generation)
}

// NodeLabels are the labels that name a volume's node.
func NodeLabels(node string) map[string]string {
	labels := map[string]string{wellknown.NodeLabel: NodeHash(node)}
	if len(node) <= validation.LabelValueMaxLength {
		labels[wellknown.NodeNameLabel] = node
	}
	return labels
}

// Naming is how volumes are named.
type Naming string

// The namings.
const (
	// Hashed names a volume by Name. It is what no naming means.
	Hashed Naming = ""
	// Reference names a volume of FirstGeneration by ReferenceName, and any other by
	// Name.
	Reference Naming = "Reference"
)

// prefix is what the names of local volumes begin with.
const prefix = "local-pv-"

// digits is how many hexadecimal digits of a hash are in a name.
const digits = 32

// maxNodeInName is how long a node's name may be to be part of a volume's.
const maxNodeInName = validation.DNS1123SubdomainMaxLength - len(prefix) - len("-") - digits

// Name returns the name of a slot's volume: "local-pv-", the node's name, "-" and the first
// 128 bits of a SHA-256, in 32 hexadecimal digits. The hash is over node, class, name and
// generation, each with its length in bytes before it, so that no two slots share a name:
// "5:node1,4:fast,5:disk1,1:1,". A node name that is too long is left out.
//
// The node's name is for the admission policy, which cannot compute hashes and allows a
// provisioner the names of its own node only.
//
// A claim that lost its volume silently becomes bound to a new one of the same name. So the
// generation is incremented when a volume has vanished without being released.
func Name(node string, slot disk.Key, generation int64) string {
	var b strings.Builder
	for _, part := range []string{node, slot.Class, slot.Name, strconv.FormatInt(generation, 10)} {
		fmt.Fprintf(&b, "%d:%s,", len(part), part)
	}
	sum := sha256.Sum256([]byte(b.String()))
	hash := hex.EncodeToString(sum[:digits/2])
	if len(node) > maxNodeInName {
		return prefix + hash
	}
	return prefix + node + "-" + hash
}

// ReferenceName is the name that sig-storage-local-static-provisioner gives to a slot's
// volume: "local-pv-" and an FNV-1a of 32 bits over name, node and class, without leading
// zeros. Different slots may share one.
func ReferenceName(node string, slot disk.Key) string {
	h := fnv.New32a()
	for _, part := range []string{slot.Name, node, slot.Class} {
		_, _ = h.Write([]byte(part)) // a hash never fails to take bytes
	}
	return prefix + strconv.FormatUint(uint64(h.Sum32()), 16)
}
