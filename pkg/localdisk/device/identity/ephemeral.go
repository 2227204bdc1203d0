// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
)

// ephemeralModels are patterns (path.Match) of "vendor model" of disks whose data is gone
// after a stop of the virtual machine, while serial number and product UUID stay.
var ephemeralModels = []string{
	"Amazon EC2 NVMe Instance Storage",   // also of bare metal instances
	"nvme_card*", "Google EphemeralDisk", // local SSDs of Google
	"Microsoft NVMe Direct Disk*", // local NVMe disks of Azure
	"Alibaba Cloud*Local*",
}

// persistentModels are the disks that outlive a stop in the clouds of stoppable.
var persistentModels = []string{
	"Amazon Elastic Block Store",
	"nvme_card-pd*", "Google PersistentDisk",
	"MSFT NVMe Accelerator*", "Msft Virtual Disk",
}

// stoppable are the clouds (sys_vendor) whose persistent disks are all in persistentModels:
// the data of any other disk may be lost at a stop.
var stoppable = []string{"Amazon EC2", "Google"}

// azureResource are the buses of an Azure virtual machine's temporary disk, by the
// directories of VMBus devices in sysfs: an IDE controller of generation 1, and the second
// disk of the first SCSI controller of generation 2. Its model is that of any other disk.
const azureIDE, azureSCSI = "00000000-0001-", "f8b3781a-1e82-4818-a1c3-63d806ec15bb"

// ephemeral reports whether a stop of the machine may discard the data of a disk without a
// change of its name.
func (h Host) ephemeral(device sysfs.Device) (bool, error) {
	model, err := modelOf(device)
	if err != nil {
		return false, err
	}
	switch persistent := anyMatches(persistentModels, model); {
	case anyMatches(ephemeralModels, model) && !persistent:
		return true, nil
	case persistent:
		return onAzureResource(device), nil
	}
	vendor, err := sysfs.Device(filepath.Join(h.Sys, dmi)).Attribute("sys_vendor")
	return slices.Contains(stoppable, tidy(vendor)), err
}

// azureAsset is the chassis' asset tag of Azure's virtual machines: those of other Hyper-V hosts
// have disks of the same model.
const azureAsset = "7783-7084-3265-9085-8269-3286-77"

// CloudVolume reports whether a disk is a volume of a cloud, which is attached to whichever
// machine needs it.
func (h Host) CloudVolume(device sysfs.Device) (bool, error) {
	model, err := modelOf(device)
	if err != nil || !anyMatches(persistentModels, model) || onAzureResource(device) {
		return false, err
	}
	if model != "Msft Virtual Disk" {
		return true, nil
	}
	asset, err := sysfs.Device(filepath.Join(h.Sys, dmi)).Attribute("chassis_asset_tag")
	return tidy(asset) == azureAsset, err
}

// Describe returns the model of a disk, with its vendor, and its serial number, as it reports them.
func Describe(device sysfs.Device) (model, serial string, err error) {
	name, serial, err := serialOf(device)
	if err == nil && name == "" {
		name, err = modelOf(device)
	}
	return name, serial, err
}

func modelOf(device sysfs.Device) (string, error) {
	vendor, err1 := device.Attribute("device/vendor")
	if strings.HasPrefix(vendor, "0x") {
		vendor = "" // a PCI or virtio number
	}
	model, err2 := device.Attribute("device/model")
	return tidy(vendor + " " + model), cmp.Or(err1, err2)
}

func anyMatches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

func onAzureResource(device sysfs.Device) bool {
	elements := strings.Split(string(device), "/")
	for i, element := range elements {
		if strings.HasPrefix(element, azureIDE) {
			return true
		}
		if element == azureSCSI {
			return slices.ContainsFunc(elements[i:], func(e string) bool { return strings.HasSuffix(e, ":0:0:1") })
		}
	}
	return false
}
