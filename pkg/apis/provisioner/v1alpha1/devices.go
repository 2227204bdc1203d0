// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"stowage.dev/stowage/pkg/apis/component"
)

// Devices are rules that select the disks of a class, instead of a folder.
type Devices struct {
	// Include selects the disks that match one of these rules and none of Exclude; at least one.
	Include []DeviceRule `json:"include,omitempty"`
	Exclude []DeviceRule `json:"exclude,omitempty"`
	// NodeSelector are labels of the nodes whose disks are selected; none selects on all nodes.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Max limits how many disks of a node the class has; nil does not.
	Max *int32 `json:"max,omitempty"`
}

// DeviceRule matches a disk that meets all its conditions; at least one.
type DeviceRule struct {
	// Transport is how the disk is attached.
	Transport  string `json:"transport,omitempty"`
	Rotational *bool  `json:"rotational,omitempty"`
	// MinSize and MaxSize are in bytes, inclusive.
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
	// Model and Serial are globs of what the disk reports; Path is a glob of its device node or of
	// udev's links to it, by ID and by path.
	Model  string `json:"model,omitempty"`
	Serial string `json:"serial,omitempty"`
	Path   string `json:"path,omitempty"`
}

const (
	// devicesFolder has the provisioner's links to the disks that rules select, in a folder for
	// each class.
	devicesFolder = "/dev/stowage/devices"
	// maxDevices is how many disks a class may have on a node.
	maxDevices = 256
)

// transports are those of the node's own disks.
var transports = sets.New("", "nvme", "sata", "sas", "scsi", "virtio", "vmbus", "xen", "mmc", "usb", "other")

// devices reports errors in a class with rules.
func (v *validator) devices(at *field.Path, name string, c *Class) {
	for key, set := range map[string]bool{
		"hostDir": c.HostDir != path.Join(devicesFolder, name), "mountDir": c.MountDir != c.HostDir, "namePattern": c.NamePattern != defaultNamePattern,
		"allowDirectories": c.AllowDirectories != nil && *c.AllowDirectories, "fsCleanerCommand": c.FSCleanerCommand != nil,
	} {
		if set {
			v.add(field.Forbidden(at.Child(key), "must be absent with devices, which selects disks and no folder"))
		}
	}
	if c.ExistingData == ExistingDataPublish || c.ExistingData == ExistingDataClean {
		v.add(field.NotSupported(at.Child("existingData"), c.ExistingData, []ExistingData{ExistingDataRefuse, ExistingDataAssumeBlank}))
	}
	d, at := c.Devices, at.Child("devices")
	if len(d.Include) == 0 {
		v.add(field.Required(at.Child("include"), "must have at least one rule: without one, no disk is selected"))
	}
	for i := range d.Include {
		v.rule(at.Child("include").Index(i), &d.Include[i])
	}
	for i := range d.Exclude {
		v.rule(at.Child("exclude").Index(i), &d.Exclude[i])
	}
	for label, value := range d.NodeSelector {
		v.qualified(at.Child("nodeSelector").Key(label), label)
		for _, why := range validation.IsValidLabelValue(value) {
			v.add(field.Invalid(at.Child("nodeSelector").Key(label), value, why))
		}
	}
	if d.Max != nil {
		v.add(component.ValidateRange(at.Child("max"), *d.Max, 1, maxDevices)...)
	}
}

func (v *validator) rule(at *field.Path, r *DeviceRule) {
	if *r == (DeviceRule{}) {
		v.add(field.Required(at, "must have at least one condition: "+strings.Join(keysOf(DeviceRule{}), ", ")))
	}
	v.add(component.ValidateOneOf(at.Child("transport"), r.Transport, transports)...)
	for key, size := range map[string]*resource.Quantity{"minSize": r.MinSize, "maxSize": r.MaxSize} {
		if size != nil && size.Sign() <= 0 {
			v.add(field.Invalid(at.Child(key), size.String(), "must be more than 0 bytes"))
		}
	}
	if r.MinSize != nil && r.MaxSize != nil && r.MinSize.Cmp(*r.MaxSize) > 0 {
		v.add(field.Invalid(at.Child("maxSize"), r.MaxSize.String(), fmt.Sprintf("must be at least minSize, %s: no disk has both", r.MinSize)))
	}
	for key, glob := range map[string]string{"model": r.Model, "serial": r.Serial, "path": r.Path} {
		if _, err := path.Match(glob, ""); err != nil {
			v.add(field.Invalid(at.Child(key), glob, "must be a glob: a [ must have its ], and a \\ something after it"))
		}
	}
	if r.Path != "" && !strings.HasPrefix(r.Path, "/dev/") {
		v.add(field.Invalid(at.Child("path"), r.Path, "must begin with /dev/"))
	}
}

// Selects reports whether the disks of a node with these labels are selected.
func (d *Devices) Selects(labels map[string]string) bool {
	for label, value := range d.NodeSelector {
		if found, ok := labels[label]; !ok || found != value {
			return false
		}
	}
	return true
}

// SelectsByLabels reports whether a class selects disks by labels of their node.
func (c *ProvisionerConfiguration) SelectsByLabels() bool {
	for name := range c.Classes {
		if d := c.Classes[name].Devices; d != nil && len(d.NodeSelector) > 0 {
			return true
		}
	}
	return false
}
