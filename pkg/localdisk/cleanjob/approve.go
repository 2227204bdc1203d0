// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cleanjob has the rules of cleaning Jobs: whether a provisioner's request for one is
// approved (Approve), the Job itself (Order.Job), and its progress as the API server shows it
// (StatusOf).
//
// A request is trusted only where a false one is to its sender's own disadvantage. Where the Job runs
// follows from the report that has the request, what it may access from the volume and the
// configuration, how it cleans from the configuration alone. docs/design/cleaning-jobs.md has
// the reasons.
package cleanjob

import (
	"slices"
	"strings"
	"time"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// Request is a provisioner's request for a cleaning Job.
type Request struct {
	// Node is spec.nodeName of the report that has the request. Admission allows a provisioner
	// to write the reports of its own node only.
	Node string
	// Key, Path and Volume are the entry's.
	Key          disk.Key
	Path, Volume string
	VolumeUID    string
	Identity     disk.Identity
	Attempt      string
	Step         string
}

// Class is the configuration of a storage class.
type Class struct {
	// HostDir is its discovery directory on the node.
	HostDir string
	// DeviceCommand and FilesCommand clean devices and file systems; none is the
	// default of kind and mode.
	DeviceCommand, FilesCommand []string
	// Timeout ends an attempt; 0 does not.
	Timeout time.Duration
}

// Order is an approved Job.
type Order struct {
	Node, HostDir, Volume, VolumeUID string
	Key                              disk.Key
	Mode                             disk.Mode
	Identity                         disk.Identity
	Command                          []string
	Attempt, Step                    string
	Timeout                          time.Duration
}

// The reasons of refusals, in addition to those of package disk.
const (
	// JobsNotConfigured: the configuration has no cleaning Jobs.
	JobsNotConfigured disk.Reason = "JobsNotConfigured"
	// NoSuchVolume: the node has no such volume, or one with another UID.
	NoSuchVolume disk.Reason = "NoSuchVolume"
	// NotReleased: the volume may be in use.
	NotReleased disk.Reason = "VolumeNotReleased"
	// Mismatch: request, volume and configuration do not fit together.
	Mismatch disk.Reason = "RequestMismatch"
	// MethodNeedsProvisioner: the method cannot be left to a Job.
	MethodNeedsProvisioner disk.Reason = "MethodNeedsProvisioner"
)

// securityErase is the method that sets a password on the drive, which must never be lost:
// only the provisioner's record guarantees that.
const securityErase = "hdparm"

// InProcess reports whether the provisioner itself has to do a clean: because of this command,
// or because an earlier attempt's step has the password of a locked drive.
func InProcess(command []string, step string) bool {
	return len(command) > 0 && command[0] == securityErase || strings.HasPrefix(step, securityErase+" ")
}

// Approve returns the Job for a request, or why there will be none. volume is the volume with
// the request's volume name, read by the present configuration, if it is one of the request's
// node; class is the configuration of the volume's class; either is nil if there is none.
// Neither is changed.
func Approve(r Request, volume *disk.Volume, class *Class) (Order, *disk.Problem) {
	if volume == nil || volume.UID != r.VolumeUID {
		return Order{}, disk.Problemf(NoSuchVolume, "node %s has no volume %s with UID %s", r.Node, r.Volume, r.VolumeUID)
	}
	if problem := notReleased(volume); problem != nil {
		return Order{}, problem
	}
	if class == nil {
		return Order{}, disk.Problemf(disk.NotConfigured, "the cleaning method is not known: the configuration has no class %q", volume.Key.Class)
	}
	if problem := r.mismatch(volume, class); problem != nil {
		return Order{}, problem
	}
	command := class.FilesCommand
	if r.Identity.Kind() == disk.Device {
		command = class.DeviceCommand
	}
	if InProcess(command, r.Step) {
		return Order{}, disk.Problemf(MethodNeedsProvisioner, "%s is never run in a Job: the provisioner has to record the drive's password", securityErase)
	}
	return Order{
		Node: r.Node, HostDir: class.HostDir, Volume: volume.Name, VolumeUID: volume.UID, Key: volume.Key, Mode: volume.Mode,
		Identity: r.Identity, Command: slices.Clone(command), Attempt: r.Attempt, Step: r.Step, Timeout: class.Timeout,
	}, nil
}

// notReleased returns why a volume is not finally released, or nil.
func notReleased(v *disk.Volume) *disk.Problem {
	switch {
	case !v.Deleting:
		return disk.Problemf(NotReleased, "volume %s is not being deleted, so a claim may be bound to it", v.Name)
	case !v.Finalized:
		return disk.Problemf(NotReleased, "volume %s has lost the finalizer %s, so another volume may replace it", v.Name, wellknown.LocalVolumeFinalizer)
	case v.Phase == disk.PhaseBound || v.Binding():
		return disk.Problemf(NotReleased, "volume %s has a claim", v.Name)
	case v.Policy != disk.Delete:
		return disk.Problemf(NotReleased, "the reclaim policy of volume %s is %s", v.Name, v.Policy)
	default:
		return nil
	}
}

// mismatch returns what in a request contradicts the volume or the configuration, or nil.
func (r *Request) mismatch(v *disk.Volume, class *Class) *disk.Problem {
	directories := map[string]string{v.Key.Class: class.HostDir}
	switch {
	case !localpv.Configured(v, directories) || v.HostPath != class.HostDir+"/"+v.Key.Name || !entryName(v.Key.Name):
		return disk.Problemf(Mismatch, "volume %s is at %s, which is no entry of folder %s of class %s", v.Name, v.HostPath, class.HostDir, v.Key.Class)
	case r.Key != v.Key || r.Path != v.HostPath:
		return disk.Problemf(Mismatch, "the request is for %s at %s, and volume %s is %s at %s", r.Key, r.Path, v.Name, v.Key, v.HostPath)
	case r.Identity == "" || v.Matches(r.Identity) != disk.Same:
		return disk.Problemf(Mismatch, "the request is for disk %s, and volume %s is of disk %s", r.Identity, v.Name, v.Identity)
	case v.Mode == disk.Block && r.Identity.Kind() != disk.Device:
		return disk.Problemf(Mismatch, "volume %s is a device, and %s is none", v.Name, r.Identity)
	default:
		return nil
	}
}

// entryName reports whether a name is that of an entry of a directory.
func entryName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}
