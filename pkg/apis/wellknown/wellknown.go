// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wellknown has every label, annotation, finalizer and resource of stowage.dev that API
// objects have. hack/keys writes docs/keys.md from it: the last line of each comment names the
// objects, and who writes the key.
package wellknown

// Finalizers.
const (
	// Keeps the volume until its disk is clean or [released](provisioner.md#leaving). Every
	// volume has it from its creation on.
	// On: volume. By: provisioner.
	LocalVolumeFinalizer = "stowage.dev/local-volume"
	// Keeps a pod that runs a step of a PaV volume until its outcome is recorded.
	// On: PaV helper pod. By: controller.
	PavPodFinalizer = "stowage.dev/pav-pod"
	// Keeps a PavVolume until nothing of the volume exists.
	// On: PavVolume. By: controller.
	PavVolumeFinalizer = "stowage.dev/pav-volume"
	// Keeps a PavStaging until nothing of the volume is left on the node.
	// On: PavStaging. By: controller.
	PavStagingFinalizer = "stowage.dev/pav-staging"
	// Keeps a PavProvisioner until no volume of it exists.
	// On: PavProvisioner. By: controller.
	PavProvisionerFinalizer = "stowage.dev/pav-provisioner"
)

// Labels.
const (
	// UID of the volume that is cleaned.
	// On: cleaning Job, its pod. By: controller.
	CleaningLabel = "stowage.dev/cleaning"
	// Hash of the node's name: 128 bits of its SHA-256 in 32 hexadecimal digits.
	// On: volume, cleaning Job, its pod. By: provisioner, controller.
	NodeLabel = "stowage.dev/node"
	// Name of the node, if it has at most 63 characters.
	// On: volume. By: provisioner.
	NodeNameLabel = "stowage.dev/node-name"
	// UID of the PavVolume or PavStaging whose step the pod runs.
	// On: PaV helper pod. By: controller.
	PavOwnerLabel = "stowage.dev/pav-owner"
	// Name of the PavProvisioner whose template the pod is made from, or whose capacity is stated.
	// On: PaV helper pod, CSIStorageCapacity. By: controller.
	PavProvisionerLabel = "stowage.dev/pav-provisioner"
	// Step that the pod runs: `validation`, `creation`, `deletion`, `staging` or `unstaging`.
	// On: PaV helper pod. By: controller.
	PavStepLabel = "stowage.dev/pav-step"
	// `true`: the report has [tombstones](controller.md#tombstones) of an earlier version.
	// On: LocalDiskReport. By: none any more; the controller removes it.
	TombstonesLabel = "stowage.dev/tombstones"
)

// TombstonesValue is the value of TombstonesLabel.
const TombstonesValue = "true"

// Annotations that components write.
const (
	// What `pv.kubernetes.io/provisioned-by` was before the volume was [adopted](migrating-from-local-static-provisioner.md).
	// On: volume. By: `kubectl stowage adopt`.
	AdoptedFromAnnotation = "stowage.dev/adopted-from"
	// Attempt of the provisioner's request that the Job belongs to.
	// On: cleaning Job. By: controller.
	AttemptAnnotation = "stowage.dev/attempt"
	// UID of the claim whose [binding was undone](design/binding.md#beside-the-pv-controller),
	// until the next binding is complete.
	// On: volume. By: scheduler, extender, controller.
	BindingUndoneAnnotation = "stowage.dev/binding-undone"
	// Path on the node that is cleaned.
	// On: cleaning Job. By: controller.
	CleaningPathAnnotation = "stowage.dev/path"
	// The volume's disk is missing or replaced: scheduler and extender place no pod on it.
	// On: volume. By: provisioner.
	DiskAnnotation = "stowage.dev/disk"
	// Size of the disk in bytes, which the capacity rounds down.
	// On: volume. By: provisioner.
	DiskBytesAnnotation = "stowage.dev/disk-bytes"
	// [Identity](provisioner.md#identity) of the disk that was published.
	// On: volume. By: provisioner.
	DiskIdentityAnnotation = "stowage.dev/disk-identity"
	// Path of the disk on the node, where `spec.local.path` is a link to it.
	// On: volume. By: provisioner.
	DiskPathAnnotation = "stowage.dev/disk-path"
	// Part of the volume's name, incremented when its predecessor vanished.
	// On: volume. By: provisioner.
	GenerationAnnotation = "stowage.dev/generation"
	// Why the volume [is unreachable](controller.md#when-a-node-is-gone-for-good), and since when.
	// On: volume. By: controller.
	LostAnnotation = "stowage.dev/lost"
	// Name of the node.
	// On: volume, cleaning Job. By: provisioner, controller.
	NodeNameAnnotation = "stowage.dev/node-name"
	// When the release of its claim began, and of which claim.
	// On: volume. By: controller.
	ReleaseAnnotation = "stowage.dev/release"
)

// Annotations that users and administrators write.
const (
	// `Now`: the controller [binds the claim without a pod](controller.md#claims-that-are-bound-now).
	// On: claim. By: user.
	BindAnnotation = "stowage.dev/bind"
	// Name of the node that must be able to use the volume of a claim that is bound now.
	// On: claim. By: user.
	BindNodeAnnotation = "stowage.dev/bind-node"
	// `true`: the controller [adopts](migrating-from-pav.md#6-adopt) the volume, which another provisioner
	// created: it gets a PavVolume, and is deleted like one that the controller created.
	// On: PersistentVolume of a PavProvisioner. By: administrator.
	PavAdoptAnnotation = "stowage.dev/pav-adopt"
	// `true`: nothing of the volume is left on the node, or the node is lost for good. The volume's
	// [staging ends](pav.md#volumes-on-nodes) without its unstaging pod.
	// On: PavStaging. By: administrator.
	PavUnstagedAnnotation = "stowage.dev/pav-unstaged"
	// Name of the node that has the capacity, or the only one that has the volume.
	// On: CSIStorageCapacity, PersistentVolume of a PavProvisioner. By: controller.
	PavNodeAnnotation = "stowage.dev/pav-node"
	// UIDs of claims whose volumes are being made, separated by commas: the capacity does not include
	// what these volumes need. The scheduler then no longer subtracts it.
	// On: CSIStorageCapacity of a PavProvisioner. By: controller.
	PavCountedAnnotation = "stowage.dev/pav-counted"
	// Allows the provisioner to clean [disks without a volume](provisioner.md): a list separated
	// by commas, each `DATA@TIME`. A grant without a time does not count towards the limit.
	// On: LocalDiskReport. By: controller, administrator.
	CleanOrphansAnnotation = "stowage.dev/clean-orphans"
	// Disks that are sound although they were [degraded or failing](health.md#reset): a list separated
	// by commas, as the message of the disk's entry says.
	// On: LocalDiskReport. By: administrator.
	HealthyDisksAnnotation = "stowage.dev/healthy-disks"
	// `Keep` or `Release`: what happens to the claim [when its node is gone for good](controller.md#when-a-node-is-gone-for-good).
	// On: claim, StorageClass. By: user.
	NodeLossAnnotation = "stowage.dev/node-loss"
	// How long the node must be gone before the release, such as `10m`.
	// On: claim, StorageClass. By: user.
	NodeLossDelayAnnotation = "stowage.dev/node-loss-delay"
	// `true`: the claim's owner [recreates it](controller.md#claims-of-operators); `false` [keeps any claim](controller.md#when-a-node-is-gone-for-good).
	// On: claim. By: user.
	NodeLossRecreatableAnnotation = "stowage.dev/node-loss-recreatable"
	// Data that was [kept](provisioner.md#retain) and may be published, separated by commas.
	// On: LocalDiskReport. By: administrator.
	PublishRetainedAnnotation = "stowage.dev/publish-retained"
	// [Identity](provisioner.md#identity) of what is at the volume's path now, if that is the same disk.
	// On: volume. By: administrator.
	SameDiskAnnotation = "stowage.dev/same-disk"
	// File system on the [volume's device](provisioner.md#volumes-on-devices) now, such as `ext4:UUID`, if it is the volume's.
	// On: volume. By: administrator.
	SameFilesystemAnnotation = "stowage.dev/same-filesystem"
	// `OLD:NEW`: machine OLD has identity NEW after an exchange of its mainboard, with the same disks.
	// On: LocalDiskReport. By: administrator.
	SameMachineAnnotation = "stowage.dev/same-machine"
)

// BindNow is the value of BindAnnotation.
const BindNow = "Now"

// Resources.
const (
	// Marks a pod with claims for the extender. No node has it: see [extender.md](extender.md#other-software).
	// On: pod. By: `manifests/extender/base/policy.yaml`.
	VolumesResource = "stowage.dev/volumes"
)
