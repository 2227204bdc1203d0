// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of the configuration.
var SchemeGroupVersion = schema.GroupVersion{Group: "provisioner.config.stowage.dev", Version: "v1alpha1"}

// AddToScheme adds the configuration to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &ProvisionerConfiguration{})
	return nil
}

// ProvisionerConfiguration is the configuration of the provisioner. Decode returns it valid and
// defaulted: no pointer is nil but those of switches. It is read-only then, and safe for
// concurrent use.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ProvisionerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Classes are the classes that volumes are published for, at least one, by the name of their
	// StorageClass. No two share a folder.
	Classes map[string]Class `json:"storageClassMap,omitempty"`
	// NodeLabelsForPV are keys of labels that volumes copy from their node.
	NodeLabelsForPV []string `json:"nodeLabelsForPV,omitempty"`
	// LabelsForPV are added to every volume, with precedence over those of the node.
	LabelsForPV map[string]string `json:"labelsForPV,omitempty"`
	// UseAlphaAPI is a key of the reference, which may only be off.
	UseAlphaAPI bool `json:"useAlphaAPI,omitempty"`
	// UseJobForCleaning cleans in Jobs, which the controller creates, instead of in the
	// provisioner. JobTolerations are theirs; none tolerates all taints.
	UseJobForCleaning bool                `json:"useJobForCleaning,omitempty"`
	JobTolerations    []corev1.Toleration `json:"jobTolerations,omitempty"`
	// MinResyncPeriod is the shortest time between two scans that no event causes; the longest
	// is twice that. Both are a minute at most.
	MinResyncPeriod *metav1.Duration `json:"minResyncPeriod,omitempty"`
	// UseNodeNameOnly is a key of the reference without effect: volumes never refer to their
	// node by UID.
	UseNodeNameOnly bool `json:"useNodeNameOnly,omitempty"`
	// SetPVOwnerRef is a key of the reference, which may only be off.
	SetPVOwnerRef bool `json:"setPVOwnerRef,omitempty"`
	// RemoveNodeNotReadyTaint removes the taint NodeNotReadyTaintKey from the node once its
	// disks are published. The key is not empty then.
	RemoveNodeNotReadyTaint bool   `json:"removeNodeNotReadyTaint,omitempty"`
	NodeNotReadyTaintKey    string `json:"provisionerNotReadyNodeTaintKey,omitempty"`
	// MaxCleaning limits how many volumes of a node are cleaned at the same time. The default is
	// two: the disks of a node share its buses and its CPU with its pods, which cleaning all at
	// once would slow down; with one, a slow disk that is overwritten for a day would delay the
	// fast ones.
	MaxCleaning *int32 `json:"maxCleaning,omitempty"`
	// MaxBlankProofs limits how many devices of a node are read at the same time to prove that
	// they are blank. A disk is read by one proof at a time in any case.
	MaxBlankProofs *int32 `json:"maxBlankProofs,omitempty"`
	// BlankProofRate is how many bytes per second of each device are read. The default is more
	// than the rate of any hard disk, and leaves most of the bandwidth of an NVMe disk to the
	// pods. A proof takes a tenth to a quarter of a CPU.
	BlankProofRate *resource.Quantity `json:"blankProofRate,omitempty"`
	// OrphanGracePeriod is how long a disk is not cleaned whose volume was released and removed
	// before the disk was cleaned. The default leaves time to notice that etcd was restored or
	// that volumes were removed by force, and to stop the provisioners.
	OrphanGracePeriod *metav1.Duration `json:"orphanGracePeriod,omitempty"`
	// ListDisks lists the node's disks as LocalDisks. It is off by default: the kind may not be
	// installed, and a cluster may have tens of thousands of disks.
	ListDisks bool `json:"listDisks,omitempty"`
	// ProbeTimeout is how long one entry of a folder may take to answer before it is reported as
	// TimedOut. It does not delay the others. The default is how long Linux waits for a disk to
	// answer a command, so that one that spins up is not reported.
	ProbeTimeout *metav1.Duration `json:"probeTimeout,omitempty"`
	// DiskHealth is when disks count as degraded and failing.
	DiskHealth DiskHealth `json:"diskHealth,omitzero"`
}

// DiskHealth is how the health of disks is watched.
type DiskHealth struct {
	// Enabled watches the disks of volumes.
	Enabled *bool `json:"enabled,omitempty"`
	// HungAfter is how long a disk may answer no request. The default is less than the time
	// after which Linux resets a disk, so that no pod starts on it meanwhile.
	HungAfter *metav1.Duration `json:"hungAfter,omitempty"`
	// DegradedErrors and FailingErrors are how many errors of a disk make it degraded and failing.
	DegradedErrors *int32 `json:"degradedErrors,omitempty"`
	FailingErrors  *int32 `json:"failingErrors,omitempty"`
}

// Class is how the disks of a StorageClass are found, published and cleaned.
type Class struct {
	// HostDir is the folder on the node, which volumes contain; MountDir is its path in the
	// provisioner's pod. Both are absolute and clean, and neither is "/". With Devices, the
	// provisioner fills the folder with links to the selected disks.
	HostDir  string `json:"hostDir,omitempty"`
	MountDir string `json:"mountDir,omitempty"`
	// Devices selects the disks by rules; nil for a class with a folder.
	Devices *Devices `json:"devices,omitempty"`
	// VolumeMode and AccessMode are those of the volumes.
	VolumeMode corev1.PersistentVolumeMode       `json:"volumeMode,omitempty"`
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// FSType is what kubelet creates on a device without a file system; empty is kubelet's
	// default (ext4).
	FSType string `json:"fsType,omitempty"`
	// Mount is who makes and mounts the file systems of devices.
	Mount Mount `json:"mount,omitempty"`
	// NamePattern has globs, separated by commas, one of which a name in the folder matches.
	NamePattern string `json:"namePattern,omitempty"`
	// BlockCleanerCommand cleans devices: a Method and its passes, if it has any, or a command
	// and its arguments. The reference's names of methods are replaced by a Method.
	BlockCleanerCommand []string `json:"blockCleanerCommand,omitempty"`
	// FSCleanerCommand is the command that cleans mounted file systems and directories. Without
	// one the provisioner removes the files itself.
	FSCleanerCommand []string `json:"fsCleanerCommand,omitempty"`
	// CleanTimeout limits an attempt to clean; 0 does not. The default is longer than three
	// random passes and one of zeros over a hard disk of 20 TB, which take about five days.
	CleanTimeout *metav1.Duration `json:"cleanTimeout,omitempty"`
	// ExistingData is what to do with a disk that holds data and was never published.
	ExistingData ExistingData `json:"existingData,omitempty"`
	// AllowDirectories publishes plain directories whose name matches DirectoryPattern.
	AllowDirectories *bool  `json:"allowDirectories,omitempty"`
	DirectoryPattern string `json:"directoryPattern,omitempty"`
	// VolumeName is how volumes are named.
	VolumeName VolumeName `json:"volumeName,omitempty"`
	// Selector is a key of the reference, which may only be empty.
	Selector []corev1.NodeSelectorTerm `json:"selector,omitempty"`
}

// ExistingData is what to do with a disk that the node has no record of and that is not empty.
type ExistingData string

// The choices.
const (
	ExistingDataRefuse  ExistingData = "Refuse"  // not published
	ExistingDataPublish ExistingData = "Publish" // published with its data
	ExistingDataClean   ExistingData = "Clean"   // cleaned, then published
	// ExistingDataAssumeBlank is Refuse, but a device of which signatures, ends and samples
	// show no data is published without having been read from end to end.
	ExistingDataAssumeBlank ExistingData = "AssumeBlank"
)

// Mount is who makes and mounts the file system of a device.
type Mount string

// The choices.
const (
	// MountKubelet: kubelet makes it at the first mount, and mounts it for pods.
	MountKubelet Mount = "Kubelet"
	// MountAgent: the provisioner makes it before it publishes the volume, and mounts it. kubelet
	// gets a folder in it, so that it never formats a device.
	MountAgent Mount = "Agent"
)

// VolumeName is a naming scheme of volumes.
type VolumeName string

// The names of volumes.
const (
	// VolumeNameStowage is names that do not collide: 128 bits, and a generation.
	VolumeNameStowage VolumeName = "Stowage"
	// VolumeNameReference is the naming of the reference provisioner, with 32 bits.
	VolumeNameReference VolumeName = "Reference"
)

// Matches reports whether a name in the folder matches NamePattern.
func (c *Class) Matches(name string) bool {
	for pattern := range strings.SplitSeq(c.NamePattern, ",") {
		if ok, err := path.Match(pattern, name); ok && err == nil {
			return true
		}
	}
	return false
}

// NamePatterns are the globs of NamePattern.
func (c *Class) NamePatterns() []string { return strings.Split(c.NamePattern, ",") }

// DirectoryPatterns are the globs of plain directories that are published; none publishes no
// plain directory.
func (c *Class) DirectoryPatterns() []string {
	if c.AllowDirectories == nil || !*c.AllowDirectories {
		return nil
	}
	return strings.Split(c.DirectoryPattern, ",")
}

// Directories are the folders on the node, by class.
func (c *ProvisionerConfiguration) Directories() map[string]string {
	found := map[string]string{}
	for name := range c.Classes {
		found[name] = c.Classes[name].HostDir
	}
	return found
}
