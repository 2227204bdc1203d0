// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"path/filepath"
	"strings"

	"stowage.dev/stowage/pkg/local/disk"
)

// ofHardware returns the identity that a whole disk has from its maker, or, if it is
// made of others, from the volume manager that made it; empty when it has none. The
// order of the sources is part of the identity's meaning: another order would give
// disks with several numbers another identity.
func ofHardware(folder string) (disk.Identity, error) {
	for _, source := range []func(string) (disk.Identity, error){
		ofNamespace, ofWorldWideName, ofSerial, ofMapped,
	} {
		if id, err := source(folder); id != "" || err != nil {
			return id, err
		}
	}
	return "", nil
}

// ofNamespace is for NVMe: a UUID, NGUID or EUI-64, else the controller's serial
// number with the namespace's. The kernel puts them in that order.
func ofNamespace(folder string) (disk.Identity, error) {
	id, err := attribute(folder, "wwid")
	if err != nil {
		return "", err
	}
	return named("nvme", id), nil
}

// ofWorldWideName is for SCSI, SATA and SAS, and what looks like them.
func ofWorldWideName(folder string) (disk.Identity, error) {
	id, err := attribute(folder, "device/wwid")
	if err != nil {
		return "", err
	}
	if wwn := named("wwn", id); wwn != "" {
		return wwn, nil
	}
	page, err := attribute(folder, "device/vpd_pg83")
	if err != nil {
		return "", err
	}
	return named("wwn", designator([]byte(page))), nil
}

// named makes an identity of "<kind of name>.<name>".
func named(scheme, id string) disk.Identity {
	id = tidy(id)
	if _, name, ok := strings.Cut(id, "."); !ok || !telling(name) {
		return ""
	}
	return compose(scheme, id)
}

// ofSerial is for what has a serial number only: virtio, MMC, old SCSI.
func ofSerial(folder string) (disk.Identity, error) {
	if strings.Contains(filepath.Base(folder), "boot") {
		return "", nil // mmcblk0boot0 is another disk than mmcblk0, with its serial number
	}
	serial, err := firstTelling(
		func() (string, error) { return attribute(folder, "serial") },
		func() (string, error) { return attribute(folder, "device/serial") },
		func() (string, error) {
			page, err := attribute(folder, "device/vpd_pg80")
			return unitSerial([]byte(page)), err
		},
	)
	if err != nil || serial == "" {
		return "", err
	}
	vendor, err := attribute(folder, "device/vendor")
	if err != nil {
		return "", err
	}
	model, err := attribute(folder, "device/model")
	if err != nil {
		return "", err
	}
	return compose("serial", tidy(vendor+" "+model), serial), nil
}

// ofMapped is for device mapper and md, whose names for what they make are in their
// own metadata, out of reach of who uses the device.
func ofMapped(folder string) (disk.Identity, error) {
	id, err := attribute(folder, "dm/uuid")
	if err != nil {
		return "", err
	}
	if id = tidy(id); lasting(id) {
		return compose("serial", "dm", id), nil
	}
	id, err = attribute(folder, "md/uuid")
	if err != nil {
		return "", err
	}
	if id = tidy(id); telling(id) {
		return compose("serial", "md", id), nil
	}
	return "", nil
}

// lasting says whether a device mapper name is kept on disk: anybody who makes a
// device may give it a name, and another device the same one tomorrow.
func lasting(id string) bool {
	if rest, ok := strings.CutPrefix(id, "part"); ok { // part1-mpath-...
		_, id, _ = strings.Cut(rest, "-")
	}
	for _, manager := range []string{"LVM-", "mpath-", "CRYPT-LUKS"} {
		if strings.HasPrefix(id, manager) {
			return true
		}
	}
	return false
}

// firstTelling returns the first number that tells a disk from others.
func firstTelling(sources ...func() (string, error)) (string, error) {
	for _, source := range sources {
		number, err := source()
		if err != nil {
			return "", err
		}
		if number = tidy(number); telling(number) {
			return number, nil
		}
	}
	return "", nil
}
