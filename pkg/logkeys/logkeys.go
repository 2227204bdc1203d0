// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logkeys names the keys of structured log lines, so that one thing
// has one key everywhere. They follow kube-scheduler and the PV controller
// ("pod", "PVC", "PV"), whose logs are read side by side with ours.
package logkeys

const (
	// Pod is a pod, klog.KObj or klog.KRef.
	Pod = "pod"
	// Node is a node's name as klog.KRef("", name).
	Node = "node"
	// Claim is a PersistentVolumeClaim, klog.KObj.
	Claim = "PVC"
	// Volume is a PersistentVolume, klog.KObj.
	Volume = "PV"
	// Class is the name of a storage class.
	Class = "storageClass"
	// Capacity is a CSIStorageCapacity, klog.KObj.
	Capacity = "CSIStorageCapacity"
	// Provisioner is the name of a provisioner.
	Provisioner = "provisioner"
	// Mode is a binding mode.
	Mode = "bindingMode"
	// Stage is a step of a binding.
	Stage = "stage"
	// Reason is why something was rejected or aborted.
	Reason = "reason"
	// Event is the kind of an informer event.
	Event = "event"
	// Duration is a duration.
	Duration = "duration"
	// Missing lists the RBAC rules that are not granted.
	Missing = "missingPermissions"
)
