// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/apis/component"
)

// The bounds of numbers and times, inclusive.
const (
	minResyncPeriod, maxResyncPeriod = time.Second, 24 * time.Hour
	minProbeTimeout, maxProbeTimeout = time.Second, 10 * time.Minute
	minOrphanGrace, maxOrphanGrace   = time.Second, 30 * 24 * time.Hour
	minHungAfter, maxHungAfter       = 5 * time.Second, 10 * time.Minute
	maxDiskErrors                    = 1_000_000
	maxAtATime                       = 64
	minBlankRate, maxBlankRate       = "1Mi", "1Ti"
	minCleanTimeout                  = time.Second
	maxPasses                        = 100  // more than is useful
	maxPathBytes                     = 4096 // Linux' PATH_MAX
)

// reserved is the prefix of the labels by which the provisioner finds its volumes.
const reserved = "stowage.dev/"

var (
	volumeModes = sets.New(corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock)
	accessModes = sets.New(corev1.ReadWriteOnce, corev1.ReadWriteOncePod, corev1.ReadOnlyMany, corev1.ReadWriteMany)
	// fsTypes are the file systems that the provisioner recognizes on a device (package
	// superblock), so that kubelet creates them once only.
	fsTypes       = sets.New("", "ext2", "ext3", "ext4", "xfs", "btrfs")
	mountedTypes  = sets.New("ext2", "ext3", "ext4", "xfs") // with MountAgent
	mounts        = sets.New(MountKubelet, MountAgent)
	existingData  = sets.New(ExistingDataRefuse, ExistingDataPublish, ExistingDataClean, ExistingDataAssumeBlank)
	volumeNames   = sets.New(VolumeNameStowage, VolumeNameReference)
	operators     = sets.New("", corev1.TolerationOpExists, corev1.TolerationOpEqual, corev1.TolerationOpLt, corev1.TolerationOpGt)
	taintEffects  = sets.New("", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
	convertedKeys = map[string]string{"true": "y, yes and on", "false": "n, no and off"}
)

// validator collects the errors of a configuration.
type validator struct{ errs field.ErrorList }

func (v *validator) add(errs ...*field.Error) { v.errs = append(v.errs, errs...) }

// validate returns an error for each fault: it names the field by its path and what is allowed.
// The configuration must be defaulted.
func validate(c *ProvisionerConfiguration) field.ErrorList {
	v := &validator{}
	v.classes(field.NewPath("storageClassMap"), c.Classes)
	for i, label := range c.NodeLabelsForPV {
		v.label(field.NewPath("nodeLabelsForPV").Index(i), label)
	}
	for label, value := range c.LabelsForPV {
		at := field.NewPath("labelsForPV").Key(label)
		v.converted(at, label)
		v.label(at, label)
		for _, why := range validation.IsValidLabelValue(value) {
			v.add(field.Invalid(at, value, why))
		}
	}
	if c.UseAlphaAPI {
		v.add(field.Forbidden(field.NewPath("useAlphaAPI"), "must be off: nothing reads the annotation volume.alpha.kubernetes.io/node-affinity since Kubernetes 1.10. "+
			"Remove this key: volumes always have spec.nodeAffinity"))
	}
	if c.SetPVOwnerRef {
		v.add(field.Forbidden(field.NewPath("setPVOwnerRef"), "must be off: deleting a Node object would delete its volumes, though the node may come back with the data of their claims. "+
			"Remove this key; for a node that will not return, use kubectl stowage release"))
	}
	for i := range c.JobTolerations {
		v.toleration(field.NewPath("jobTolerations").Index(i), &c.JobTolerations[i])
	}
	taint := field.NewPath("provisionerNotReadyNodeTaintKey")
	if c.NodeNotReadyTaintKey != "" {
		v.qualified(taint, c.NodeNotReadyTaintKey)
	} else if c.RemoveNodeNotReadyTaint {
		v.add(field.Required(taint, "must be the key of the startup taint, because removeNodeNotReadyTaint is on"))
	}
	v.add(component.ValidateRange(field.NewPath("minResyncPeriod"), c.MinResyncPeriod.Duration, minResyncPeriod, maxResyncPeriod)...)
	v.add(component.ValidateRange(field.NewPath("orphanGracePeriod"), c.OrphanGracePeriod.Duration, minOrphanGrace, maxOrphanGrace)...)
	v.add(component.ValidateRange(field.NewPath("probeTimeout"), c.ProbeTimeout.Duration, minProbeTimeout, maxProbeTimeout)...)
	v.health(field.NewPath("diskHealth"), &c.DiskHealth)
	v.add(component.ValidateRange(field.NewPath("maxCleaning"), *c.MaxCleaning, 1, maxAtATime)...)
	v.add(component.ValidateRange(field.NewPath("maxBlankProofs"), *c.MaxBlankProofs, 1, maxAtATime)...)
	if rate := c.BlankProofRate; rate.Cmp(resource.MustParse(minBlankRate)) < 0 || rate.Cmp(resource.MustParse(maxBlankRate)) > 0 {
		v.add(field.Invalid(field.NewPath("blankProofRate"), rate.String(), fmt.Sprintf("must be from %s to %s bytes", minBlankRate, maxBlankRate)))
	}
	return v.errs
}

func (v *validator) health(at *field.Path, h *DiskHealth) {
	v.add(component.ValidateRange(at.Child("hungAfter"), h.HungAfter.Duration, minHungAfter, maxHungAfter)...)
	v.add(component.ValidateRange(at.Child("degradedErrors"), *h.DegradedErrors, 1, maxDiskErrors)...)
	v.add(component.ValidateRange(at.Child("failingErrors"), *h.FailingErrors, 1, maxDiskErrors)...)
	if *h.FailingErrors < *h.DegradedErrors {
		v.add(field.Invalid(at.Child("failingErrors"), *h.FailingErrors, fmt.Sprintf("must be at least degradedErrors, which is %d", *h.DegradedErrors)))
	}
}

func (v *validator) qualified(at *field.Path, key string) {
	for _, why := range validation.IsQualifiedName(key) {
		v.add(field.Invalid(at, key, why))
	}
}

func (v *validator) label(at *field.Path, key string) {
	v.qualified(at, key)
	if strings.HasPrefix(key, reserved) {
		v.add(field.Forbidden(at, fmt.Sprintf("labels that begin with %s are reserved for the provisioner: choose another key than %s", reserved, key)))
	}
}

// converted reports a name that YAML may have converted: "true" cannot be distinguished from y.
func (v *validator) converted(at *field.Path, name string) {
	if from, ok := convertedKeys[name]; ok {
		v.add(field.Forbidden(at, fmt.Sprintf("cannot be a name, because YAML reads %s as %s", from, name)))
	}
}

func (v *validator) toleration(at *field.Path, t *corev1.Toleration) {
	v.add(component.ValidateOneOf(at.Child("operator"), t.Operator, operators)...)
	v.add(component.ValidateOneOf(at.Child("effect"), t.Effect, taintEffects)...)
	if t.Key != "" {
		v.qualified(at.Child("key"), t.Key)
	} else if t.Operator != corev1.TolerationOpExists {
		v.add(field.Required(at.Child("key"), "only operator Exists needs none"))
	}
	if s := t.TolerationSeconds; s != nil && (*s < 0 || *s > math.MaxInt32) {
		v.add(field.Invalid(at.Child("tolerationSeconds"), *s, fmt.Sprintf("must be a whole number from 0 to %d", math.MaxInt32)))
	}
}

func (v *validator) classes(at *field.Path, classes map[string]Class) {
	if len(classes) == 0 {
		v.add(field.Required(at, "must have at least one storage class: without one, the provisioner finds no disk"))
	}
	names := sets.List(sets.KeySet(classes))
	for _, name := range names {
		v.converted(at.Key(name), name)
		for _, why := range validation.IsDNS1123Subdomain(name) {
			v.add(field.Invalid(at.Key(name), name, "cannot be the name of a StorageClass: "+why))
		}
		class := classes[name]
		v.class(at.Key(name), &class)
		if class.Devices != nil {
			v.devices(at.Key(name), name, &class)
		}
	}
	v.overlaps(at, names, classes)
}

func (v *validator) class(at *field.Path, c *Class) {
	if c.HostDir == "" {
		v.add(field.Required(at.Child("hostDir"), "must be the folder on the node where the disks of this class are found"))
	}
	v.folder(at.Child("hostDir"), c.HostDir)
	if c.MountDir != c.HostDir {
		v.folder(at.Child("mountDir"), c.MountDir)
	}
	v.add(component.ValidateOneOf(at.Child("volumeMode"), c.VolumeMode, volumeModes)...)
	v.add(component.ValidateOneOf(at.Child("accessMode"), c.AccessMode, accessModes)...)
	v.add(component.ValidateOneOf(at.Child("fsType"), c.FSType, fsTypes)...)
	v.add(component.ValidateOneOf(at.Child("mount"), c.Mount, mounts)...)
	if c.Mount == MountAgent {
		v.mountedByProvisioner(at, c)
	}
	v.add(component.ValidateOneOf(at.Child("existingData"), c.ExistingData, existingData)...)
	v.add(component.ValidateOneOf(at.Child("volumeName"), c.VolumeName, volumeNames)...)
	v.patterns(at.Child("namePattern"), c.NamePattern)
	v.blockCleaner(at.Child("blockCleanerCommand"), c.BlockCleanerCommand)
	if c.FSCleanerCommand != nil {
		v.filesystemCleaner(at.Child("fsCleanerCommand"), c)
	}
	if timeout := c.CleanTimeout.Duration; timeout != 0 && timeout < minCleanTimeout {
		v.add(field.Invalid(at.Child("cleanTimeout"), timeout.String(), fmt.Sprintf("must be at least %s, or 0 for none", minCleanTimeout)))
	}
	v.directories(at, c)
	if len(c.Selector) > 0 {
		v.add(field.Forbidden(at.Child("selector"), "must be absent: it lets several nodes use one volume, and then no node can know that it is unused and can be cleaned. "+
			"Remove this key; for disks that several nodes reach, use a CSI driver or write the volumes by hand"))
	}
}

// mountedByProvisioner reports what does not go with MountAgent.
func (v *validator) mountedByProvisioner(at *field.Path, c *Class) {
	mount := at.Child("mount")
	switch {
	case c.VolumeMode == corev1.PersistentVolumeBlock:
		v.add(field.Forbidden(mount, "must be Kubelet with volumeMode Block, which has no file system"))
	case c.FSType == "":
		v.add(field.Required(at.Child("fsType"), "must be the file system that the provisioner makes, because mount is Agent"))
	case fsTypes.Has(c.FSType) && !mountedTypes.Has(c.FSType):
		v.add(field.Invalid(at.Child("fsType"), c.FSType, fmt.Sprintf("must be one of %s with mount Agent", strings.Join(sets.List(mountedTypes), ", "))))
	}
	if c.ExistingData == ExistingDataPublish {
		v.add(field.Forbidden(at.Child("existingData"), "must not be Publish with mount Agent: volumes have only file systems that the provisioner made"))
	}
}

// folder reports a path that is not absolute and clean, or is the root.
func (v *validator) folder(at *field.Path, dir string) {
	if why := badFolder(dir); why != "" && dir != "" {
		v.add(field.Invalid(at, dir, why))
	}
}

// badFolder returns why a folder cannot be used; empty if it can.
func badFolder(dir string) string {
	switch {
	case strings.ContainsFunc(dir, unicode.IsControl):
		return "must be a path that can be printed"
	case len(dir) >= maxPathBytes:
		return fmt.Sprintf("must have less than %d bytes, the limit of a path, and has %d", maxPathBytes, len(dir))
	case !strings.HasPrefix(dir, "/"):
		return "must be an absolute path"
	case strings.Trim(dir, "/") == "":
		return "must not be /: every folder of the root file system would be scanned. Name a folder that holds disks and nothing else"
	case path.Clean(dir) != dir:
		return "must be a path without empty elements, . and ..: write " + path.Clean(dir)
	default:
		return ""
	}
}

func (v *validator) patterns(at *field.Path, text string) {
	for pattern := range strings.SplitSeq(text, ",") {
		if why := badPattern(pattern); why != "" {
			v.add(field.Invalid(at, text, why))
		}
	}
}

// badPattern returns why a glob can match no name; empty if it can.
func badPattern(pattern string) string {
	_, err := path.Match(pattern, "")
	switch {
	case pattern == "":
		return "has an empty pattern: remove the extra comma"
	case strings.TrimSpace(pattern) != pattern:
		return "has a blank next to a comma or at an end, which no name matches: remove it"
	case strings.Contains(pattern, "/"):
		return "has a slash: patterns are matched with the names in the folder, not with paths"
	case strings.ContainsAny(pattern, "{}"):
		return "has braces, which patterns do not support: list the patterns, separated by commas"
	case err != nil:
		return "has the bad pattern " + pattern + ": a [ must have its ], and a \\ something after it. " +
			"A comma always separates patterns, within [ ] too"
	default:
		return ""
	}
}

func (v *validator) directories(at *field.Path, c *Class) {
	allowed, pattern := c.AllowDirectories, at.Child("directoryPattern")
	if c.DirectoryPattern != "" {
		v.patterns(pattern, c.DirectoryPattern)
	}
	switch {
	case allowed == nil && c.DirectoryPattern != "":
		v.add(field.Forbidden(pattern, "has no effect without allowDirectories: write allowDirectories: true, or remove this key"))
	case allowed == nil || !*allowed:
	case c.VolumeMode == corev1.PersistentVolumeBlock:
		v.add(field.Forbidden(at.Child("allowDirectories"), "must be off with volumeMode Block: a directory is no device"))
	case c.DirectoryPattern == "":
		v.add(field.Required(pattern, "must say which plain directories are volumes, because allowDirectories is on: "+
			"a disk that is not mounted leaves a plain directory too, and must not become a volume"))
	}
}

// command reports a command that cannot be run, and returns false for it.
func (v *validator) command(at *field.Path, command []string) bool {
	if len(command) == 0 {
		v.add(field.Required(at, "must name a command: write one, or remove this key for the default"))
	}
	for i, word := range command {
		if strings.ContainsRune(word, 0) {
			v.add(field.Invalid(at.Index(i), word, "must be without the character 0, which ends a word"))
		}
	}
	return len(command) > 0
}

func (v *validator) blockCleaner(at *field.Path, command []string) {
	if !v.command(at, command) {
		return
	}
	m := methodOf(command)
	switch arguments := command[1:]; {
	case m == nil && !isProgram(command[0]):
		var names []string
		for _, m := range methods {
			names = append(names, string(m.name))
		}
		v.add(field.Invalid(at, command[0], fmt.Sprintf("is neither a built-in method (%s) nor a program: programs are named by an absolute path without . and ..", strings.Join(names, ", "))))
	case m == nil:
	case m.passes == 0 && len(arguments) > 0:
		v.add(field.Invalid(at, strings.Join(arguments, " "), command[0]+" takes no arguments"))
	case m.passes > 0:
		if passes, err := strconv.Atoi(arguments[0]); len(arguments) > 1 || err != nil || passes < 1 || passes > maxPasses {
			v.add(field.Invalid(at, strings.Join(arguments, " "), fmt.Sprintf("%s takes one argument, how often to overwrite (1 to %d)", command[0], maxPasses)))
		}
	}
}

func (v *validator) filesystemCleaner(at *field.Path, c *Class) {
	command := c.FSCleanerCommand
	switch {
	case !v.command(at, command):
	case methodOf(command) != nil || !isProgram(command[0]):
		v.add(field.Invalid(at, command[0], "must begin with the absolute path of a program: the built-in methods clean devices. "+
			"Without this key the provisioner removes the files itself"))
	case c.VolumeMode == corev1.PersistentVolumeBlock:
		v.add(field.Forbidden(at, "must be absent with volumeMode Block, which publishes no file system: blockCleanerCommand cleans devices"))
	}
}

// isProgram reports whether a command is an absolute path of a file.
func isProgram(command string) bool {
	return path.IsAbs(command) && path.Clean(command) == command && command != "/"
}

// overlaps reports classes that would find the same disks: of two, the one whose folder is in the
// other's, or the later one if both have the same.
func (v *validator) overlaps(at *field.Path, names []string, classes map[string]Class) {
	hosts, mounts := map[string]string{}, map[string]string{} // the first class that has a folder
	for _, name := range slices.Backward(names) {
		hosts[classes[name].HostDir], mounts[classes[name].MountDir] = name, name
	}
	for _, name := range names {
		class := classes[name]
		if where := overlap(hosts, "hostDir", class.HostDir, name); where != "" {
			v.add(field.Invalid(at.Key(name).Child("hostDir"), class.HostDir, where+": both would find the same disks. "+
				"Give each class its own folder, and link or mount its disks there"))
		} else if where := overlap(mounts, "mountDir", class.MountDir, name); where != "" {
			v.add(field.Invalid(at.Key(name).Child("mountDir"), class.MountDir, where+": the provisioner would find the same disks for both. "+
				"Mount each hostDir at its own path in the provisioner's pod"))
		}
	}
}

// overlap describes the nearest folder that is dir or contains it and that another class owns;
// empty if there is none. /mnt/disks does not contain /mnt/disks-other.
func overlap(owners map[string]string, key, dir, class string) string {
	if badFolder(dir) != "" {
		return ""
	}
	for in := dir; in != "/"; in = path.Dir(in) {
		switch other, owned := owners[in]; {
		case !owned || other == class:
		case in == dir:
			return fmt.Sprintf("is the %s of class %s too", key, other)
		default:
			return fmt.Sprintf("is in %s, the %s of class %s", in, key, other)
		}
	}
	return ""
}
