// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/apis/component"
)

// Defaults, as users see them in docs/provisioner-configuration.md; the fields have their
// reasons. That of minResyncPeriod is the reference's.
const (
	defaultMinResyncPeriod          = 5 * time.Minute
	defaultMaxCleaning        int32 = 2
	defaultMaxBlankProofs     int32 = 2
	defaultBlankProofRate           = "1Gi"
	defaultOrphanGracePeriod        = 10 * time.Minute
	defaultProbeTimeout             = 30 * time.Second
	defaultHungAfter                = 15 * time.Second
	defaultDegradedErrors     int32 = 1
	defaultFailingErrors      int32 = 10
	defaultCleanTimeout             = 7 * 24 * time.Hour
	defaultNamePattern              = "*"
	defaultDevice, defaultRaw       = MethodFSReset, MethodZero // by volume mode
)

// setDefaults sets every field that is absent, and replaces values by their canonical form.
func setDefaults(c *ProvisionerConfiguration) {
	component.Default(&c.MinResyncPeriod, &metav1.Duration{Duration: defaultMinResyncPeriod})
	component.Default(&c.MaxCleaning, new(defaultMaxCleaning))
	component.Default(&c.MaxBlankProofs, new(defaultMaxBlankProofs))
	component.Default(&c.BlankProofRate, new(resource.MustParse(defaultBlankProofRate)))
	component.Default(&c.OrphanGracePeriod, &metav1.Duration{Duration: defaultOrphanGracePeriod})
	component.Default(&c.ProbeTimeout, &metav1.Duration{Duration: defaultProbeTimeout})
	component.Default(&c.DiskHealth.Enabled, new(true))
	component.Default(&c.DiskHealth.HungAfter, &metav1.Duration{Duration: defaultHungAfter})
	component.Default(&c.DiskHealth.DegradedErrors, new(defaultDegradedErrors))
	component.Default(&c.DiskHealth.FailingErrors, new(defaultFailingErrors))
	for name, class := range c.Classes {
		setClassDefaults(name, &class)
		c.Classes[name] = class
	}
}

func setClassDefaults(name string, c *Class) {
	c.HostDir, c.MountDir = withoutSlash(c.HostDir), withoutSlash(c.MountDir)
	if c.Devices != nil {
		component.Default(&c.HostDir, path.Join(devicesFolder, name))
	}
	component.Default(&c.MountDir, c.HostDir)
	component.Default(&c.VolumeMode, corev1.PersistentVolumeFilesystem)
	component.Default(&c.AccessMode, corev1.ReadWriteOnce)
	component.Default(&c.Mount, MountKubelet)
	component.Default(&c.NamePattern, defaultNamePattern)
	if c.BlockCleanerCommand == nil {
		c.BlockCleanerCommand = []string{string(defaultDevice)}
		if c.VolumeMode == corev1.PersistentVolumeBlock {
			c.BlockCleanerCommand = []string{string(defaultRaw)}
		}
	}
	c.BlockCleanerCommand = canonical(c.BlockCleanerCommand)
	component.Default(&c.CleanTimeout, &metav1.Duration{Duration: defaultCleanTimeout})
	component.Default(&c.ExistingData, ExistingDataRefuse)
	component.Default(&c.VolumeName, VolumeNameStowage)
}

// withoutSlash removes slashes at the end of a folder, which old configurations have.
func withoutSlash(dir string) string {
	if trimmed := strings.TrimRight(dir, "/"); trimmed != "" {
		return trimmed
	}
	return dir
}

// Method is a built-in method of cleaning a device.
type Method string

// The methods.
const (
	// MethodFSReset removes the signatures of file systems; old bytes stay.
	MethodFSReset Method = "fs-reset"
	// MethodZero makes the device read as zeros, by deallocation where that proves it.
	MethodZero Method = "zero"
	// MethodBlkDiscard discards all blocks; reads return whatever the device returns for them.
	MethodBlkDiscard Method = "blkdiscard"
	// MethodDDZero overwrites with zeros, in passes.
	MethodDDZero Method = "dd-zero"
	// MethodShred overwrites with random bytes, in passes, and then with zeros.
	MethodShred Method = "shred"
	// MethodHDParm runs an ATA secure erase.
	MethodHDParm Method = "hdparm"
)

// method is a Method, how often it overwrites by default (0 if it does not in passes), and the
// reference's script that does the same.
type method struct {
	name   Method
	passes int
	script string
}

var methods = []method{
	{MethodFSReset, 0, "/scripts/quick_reset.sh"},
	{MethodZero, 0, ""},
	{MethodBlkDiscard, 0, "/scripts/blkdiscard.sh"},
	{MethodDDZero, 1, "/scripts/dd_zero.sh"},
	{MethodShred, 3, "/scripts/shred.sh"},
	{MethodHDParm, 0, ""},
}

// methodOf returns the method that a command begins with; nil if it begins with a program.
func methodOf(command []string) *method {
	at := slices.IndexFunc(methods, func(m method) bool {
		return len(command) > 0 && command[0] != "" && (command[0] == string(m.name) || command[0] == m.script)
	})
	if at < 0 {
		return nil
	}
	return &methods[at]
}

// canonical returns a command with the method's own name and with its passes.
func canonical(command []string) []string {
	m := methodOf(command)
	if m == nil {
		return command
	}
	command = slices.Clone(command)
	command[0] = string(m.name)
	if len(command) == 1 && m.passes > 0 {
		command = append(command, strconv.Itoa(m.passes))
	}
	return command
}
