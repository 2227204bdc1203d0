// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Config is a valid configuration with all defaults filled in. It is read-only
// once parsed, and then safe for concurrent use.
type Config struct {
	// Classes are the storage classes that volumes are published for, at least
	// one, sorted by name. No two share a folder.
	Classes []Class
	// NodeLabelsForPV are keys of labels that volumes copy from their node, without
	// duplicates, in the order written.
	NodeLabelsForPV []string
	// LabelsForPV are added to every volume, with precedence over those of the node.
	LabelsForPV map[string]string
	// UseJobForCleaning cleans in Jobs, which the controller creates, instead of in
	// the provisioner. JobTolerations are theirs; none tolerates all taints.
	UseJobForCleaning bool
	JobTolerations    []corev1.Toleration
	// UseNodeNameOnly is read, but has no effect: volumes never refer to their node
	// by UID.
	UseNodeNameOnly bool
	// MinResyncPeriod is the shortest time between two scans that no event causes;
	// the longest is twice that. Both are a minute at most.
	MinResyncPeriod time.Duration
	// RemoveNodeNotReadyTaint reports whether the provisioner removes the taint
	// NodeNotReadyTaintKey from its node once the disks are published. The key is
	// not empty then.
	RemoveNodeNotReadyTaint bool
	NodeNotReadyTaintKey    string
	// MaxCleaning bounds how many volumes of a node are cleaned at the same time.
	MaxCleaning int
	// MaxBlankProofs bounds how many devices of a node are read at the same time to prove
	// that they are blank, and BlankProofRate how many bytes per second of each.
	MaxBlankProofs int
	BlankProofRate int64
	// OrphanGracePeriod is how long a disk is not cleaned whose volume was released and
	// removed before the disk was cleaned.
	OrphanGracePeriod time.Duration
	// ProbeTimeout is how long one entry of a folder may take to answer before it
	// is reported as TimedOut. It does not delay the others.
	ProbeTimeout time.Duration
}

// Class is how the disks of a storage class are found, published and cleaned.
type Class struct {
	// Name is the StorageClass.
	Name string
	// HostDir is the folder on the node, which volumes contain; MountDir is its path in
	// the provisioner's pod. Both are absolute and clean, and neither is "/".
	HostDir, MountDir string
	// VolumeMode and AccessMode are those of the volumes.
	VolumeMode corev1.PersistentVolumeMode
	AccessMode corev1.PersistentVolumeAccessMode
	// FSType is what kubelet creates on a device without a file system; empty is
	// kubelet's default (ext4).
	FSType string
	// NamePatterns admit an entry of the folder if one matches its name
	// (path.Match). There is at least one.
	NamePatterns []string
	// DirectoryPatterns admit plain directories whose name matches one of them;
	// none admits no plain directory.
	DirectoryPatterns []string
	// BlockCleaner cleans devices. It is never the zero value.
	BlockCleaner Cleaner
	// FilesystemCleaner cleans mounted file systems and directories: an external
	// command, or the zero value: the provisioner removes the files itself.
	FilesystemCleaner Cleaner
	// CleanTimeout limits an attempt to clean; 0 does not.
	CleanTimeout time.Duration
	// ExistingData is what to do with a disk that holds data and was never
	// published.
	ExistingData ExistingData
	// VolumeName is how volumes are named.
	VolumeName VolumeName
}

// ExistingData is what to do with a disk that the node has no record of and
// that is not empty.
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

// VolumeName is a naming scheme of volumes.
type VolumeName string

// The names of volumes.
const (
	// VolumeNameStowage is names that do not collide: 128 bits, and a generation.
	VolumeNameStowage VolumeName = "Stowage"
	// VolumeNameReference is the naming of the reference provisioner, with 32 bits.
	VolumeNameReference VolumeName = "Reference"
)

// The defaults.
const (
	// DefaultMinResyncPeriod is the reference's.
	DefaultMinResyncPeriod = 5 * time.Minute
	// DefaultMaxCleaning is two: the disks of a node share its buses and its CPU
	// with its pods, which cleaning all at once would slow down; with one, a slow
	// disk that is overwritten for a day would delay the fast ones.
	DefaultMaxCleaning = 2
	// DefaultMaxBlankProofs is two, as DefaultMaxCleaning is. A disk is read by one proof
	// at a time in any case.
	DefaultMaxBlankProofs = 2
	// DefaultBlankProofRate, 1Gi, is more than the rate of any hard disk, and leaves most of
	// the bandwidth of an NVMe disk to the pods. A proof takes a tenth to a quarter of a CPU.
	DefaultBlankProofRate = 1 << 30
	// DefaultProbeTimeout is how long Linux waits for a disk to answer a command, so
	// that one that spins up is not reported.
	DefaultProbeTimeout = 30 * time.Second
	// DefaultOrphanGracePeriod leaves time to notice that etcd was restored or that
	// volumes were removed by force, and to stop the provisioners.
	DefaultOrphanGracePeriod = 10 * time.Minute
	// DefaultCleanTimeout is longer than three random passes and one of zeros over
	// a hard disk of 20 TB, which take about five days.
	DefaultCleanTimeout = 7 * 24 * time.Hour
)

// The bounds of the global numbers, inclusive.
const (
	minResyncPeriod, maxResyncPeriod = time.Second, 24 * time.Hour
	minProbeTimeout, maxProbeTimeout = time.Second, 10 * time.Minute
	minOrphanGrace, maxOrphanGrace   = time.Second, 30 * 24 * time.Hour
	minMaxCleaning, maxMaxCleaning   = 1, 64
	minBlankProofs, maxBlankProofs   = 1, 64
	minBlankRate, maxBlankRate       = "1Mi", "1Ti"
	minCleanTimeout                  = time.Second
)

// defaults returns the configuration without any key.
func defaults() *Config {
	return &Config{
		MinResyncPeriod:   DefaultMinResyncPeriod,
		MaxCleaning:       DefaultMaxCleaning,
		MaxBlankProofs:    DefaultMaxBlankProofs,
		BlankProofRate:    DefaultBlankProofRate,
		ProbeTimeout:      DefaultProbeTimeout,
		OrphanGracePeriod: DefaultOrphanGracePeriod,
	}
}

// classDefaults returns a class without any key. MountDir and BlockCleaner depend on other
// keys, and are set when the class is read.
func classDefaults(name string) *Class {
	return &Class{
		Name:         name,
		VolumeMode:   corev1.PersistentVolumeFilesystem,
		AccessMode:   corev1.ReadWriteOnce,
		NamePatterns: []string{"*"},
		CleanTimeout: DefaultCleanTimeout,
		ExistingData: ExistingDataRefuse,
		VolumeName:   VolumeNameStowage,
	}
}
