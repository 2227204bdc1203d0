// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Warnings returns the warnings about a valid configuration, sorted by class, with those about
// global settings last.
func (c *Config) Warnings() []Finding {
	var found Errors
	for _, class := range c.Classes {
		class.warn(node{path: field.NewPath(classMapKey).Key(class.Name), errs: &found}, c.UseJobForCleaning)
	}
	if len(c.JobTolerations) > 0 && !c.UseJobForCleaning {
		node{path: field.NewPath("jobTolerations"), errs: &found}.failf("has no effect without %s", useJobsKey)
	}
	if c.UseNodeNameOnly {
		node{path: field.NewPath("useNodeNameOnly"), errs: &found}.failf("has no effect: volumes always name their node by its name alone")
	}
	return found
}

func (c *Class) warn(n node, jobs bool) {
	if jobs && c.BlockCleaner.Method == MethodHDParm {
		n.child("blockCleanerCommand", nil).failf("%s is run by the provisioner itself, also with %s: only the provisioner knows the drive's password", MethodHDParm, useJobsKey)
	}
	if c.VolumeMode == corev1.PersistentVolumeBlock {
		if slices.Contains([]Method{MethodFSReset, MethodBlkDiscard}, c.BlockCleaner.Method) {
			n.child("blockCleanerCommand", nil).failf("after %s, old bytes may be readable by the next claim of a Block volume: "+
				"the default, zero, makes the device read as zeros", c.BlockCleaner.Method)
		}
		if c.FSType != "" {
			n.child("fsType", nil).failf("has no effect with volumeMode Block")
		}
	}
	switch c.ExistingData {
	case ExistingDataClean:
		n.child("existingData", nil).failf("a disk that holds data is cleaned when it is found for the first time, without confirmation")
	case ExistingDataAssumeBlank:
		n.child("existingData", nil).failf("a new device is not read from end to end: if it is not blank as assumed, the claim that gets it can read what it holds, or a file system is created over it")
	case ExistingDataPublish:
		n.child("existingData", nil).failf("a disk that holds data is published with it, and the claim that gets it can read it")
	}
	if c.VolumeName == VolumeNameReference {
		n.child("volumeName", nil).failf("the reference's names have 32 bits: two volumes of a large cluster can collide, and then one of them is never published")
	}
}
