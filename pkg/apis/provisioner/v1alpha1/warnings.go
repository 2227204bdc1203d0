// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Warnings returns the warnings about a valid configuration, each beginning with its field,
// sorted by class, with those about other fields last.
func (c *ProvisionerConfiguration) Warnings() []string {
	var found []string
	for _, name := range sets.List(sets.KeySet(c.Classes)) {
		class := c.Classes[name]
		for _, w := range class.warnings(c.UseJobForCleaning) {
			found = append(found, field.NewPath("storageClassMap").Key(name).String()+"."+w)
		}
	}
	if len(c.JobTolerations) > 0 && !c.UseJobForCleaning {
		found = append(found, "jobTolerations: has no effect without useJobForCleaning")
	}
	if c.UseNodeNameOnly {
		found = append(found, "useNodeNameOnly: has no effect: volumes always name their node by its name alone")
	}
	return found
}

func (c *Class) warnings(jobs bool) []string {
	var found []string
	method := Method(c.BlockCleanerCommand[0])
	if jobs && method == MethodHDParm {
		found = append(found, fmt.Sprintf("blockCleanerCommand: %s is run by the provisioner itself, also with useJobForCleaning: only the provisioner knows the drive's password", method))
	}
	if c.VolumeMode == corev1.PersistentVolumeBlock {
		if method == MethodFSReset || method == MethodBlkDiscard {
			found = append(found, fmt.Sprintf("blockCleanerCommand: after %s, old bytes may be readable by the next claim of a Block volume: "+
				"the default, zero, makes the device read as zeros", method))
		}
		if c.FSType != "" {
			found = append(found, "fsType: has no effect with volumeMode Block")
		}
	}
	switch c.ExistingData {
	case ExistingDataClean:
		found = append(found, "existingData: a disk that holds data is cleaned when it is found for the first time, without confirmation")
	case ExistingDataAssumeBlank:
		found = append(found, "existingData: a new device is not read from end to end: if it is not blank as assumed, the claim that gets it can read what it holds, or a file system is created over it")
	case ExistingDataPublish:
		found = append(found, "existingData: a disk that holds data is published with it, and the claim that gets it can read it")
	}
	if c.VolumeName == VolumeNameReference {
		found = append(found, "volumeName: the reference's names have 32 bits: two volumes of a large cluster can collide, and then one of them is never published")
	}
	return found
}
