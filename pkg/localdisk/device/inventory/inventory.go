// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory reads from sysfs which disks the node has: how they are attached, what they
// report about themselves, and what uses them. No device is opened, and udev is not needed.
package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/identity"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/device/usage"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Reader reads the block devices of a node. It is stateless, and safe for concurrent use.
type Reader struct {
	// Dev is where device nodes are.
	Dev string
	// Identities reads the identities of disks, Usage what uses them.
	Identities identity.Host
	Usage      *usage.Finder
}

// BlockDevices returns all block devices that are not partitions, in the order of their names.
// One that disappears meanwhile is left out. After an error nothing is known about any device.
func (r Reader) BlockDevices() ([]disk.BlockDevice, error) {
	folder := filepath.Join(r.Identities.Sys, "class/block")
	names, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("list block devices: %w", err)
	}
	survey, err := r.Usage.Survey(nil, nil)
	if err != nil {
		return nil, err
	}
	links := r.links()
	var found []disk.BlockDevice
	for _, name := range names {
		d, err := r.read(survey, filepath.Join(folder, name.Name()))
		switch {
		case gone(err):
		case err != nil:
			return nil, fmt.Errorf("read block device %s: %w", name.Name(), err)
		case d != nil:
			d.Links = links[d.Path]
			found = append(found, *d)
		}
	}
	return found, nil
}

// links returns udev's links to device nodes, by ID and by path, by the device node.
func (r Reader) links() map[string][]string {
	found := map[string][]string{}
	for _, folder := range []string{"by-id", "by-path"} {
		links, _ := filepath.Glob(filepath.Join(r.Dev, "disk", folder, "*")) // the pattern is valid
		for _, link := range links {
			if target, err := filepath.EvalSymlinks(link); err == nil {
				found[target] = append(found[target], link)
			}
		}
	}
	return found
}

// gone reports whether an error means that a device no longer exists.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO)
}

// read returns the device of a directory; nil for a partition, and for a path of an NVMe
// subsystem, which has no device node.
func (r Reader) read(survey *usage.Survey, folder string) (*disk.BlockDevice, error) {
	resolved, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	device := sysfs.Device(resolved)
	number, err1 := device.Attribute("dev")
	_, partition, err2 := device.Disk()
	if err := cmp.Or(err1, err2); err != nil || number == "" || partition {
		return nil, err
	}
	d := &disk.BlockDevice{
		Number: strings.TrimSpace(number),
		Path:   filepath.Join(r.Dev, strings.ReplaceAll(filepath.Base(resolved), "!", "/")),
	}
	if d.Transport, err = transportOf(device, r.Identities.Sys); err != nil {
		return nil, err
	}
	if err := r.describe(d, device); err != nil {
		return nil, err
	}
	d.Users, err = survey.BlockingUsers(disk.Fact{Place: "dev:" + d.Number, HostPath: d.Path}, "")
	return d, err
}

// describe sets what the device reports about itself.
func (r Reader) describe(d *disk.BlockDevice, device sysfs.Device) error {
	var errs [4]error
	d.Bytes, errs[0] = device.Bytes("size")
	d.Model, d.Serial, errs[1] = identity.Describe(device)
	for name, value := range map[string]*bool{"queue/rotational": &d.Rotational, "removable": &d.Removable, "ro": &d.ReadOnly} {
		text, err := device.Attribute(name)
		if err != nil {
			return err
		}
		*value = strings.TrimSpace(text) == "1"
	}
	d.Partitions, errs[2] = partitionsOf(device)
	d.Content, errs[3] = contentOf(device)
	if err := cmp.Or(errs[:]...); err != nil {
		return err
	}
	if d.Transport == "" {
		return nil // not identified: pods can create any number of them
	}
	cloud, err := r.Identities.CloudVolume(device)
	if err != nil {
		return err
	}
	d.Networked = cloud || d.Transport == disk.ISCSI || d.Transport == disk.FC || d.Transport == disk.NVMeFabric
	// An error means that nothing identifies the device.
	d.Identity, _ = r.Identities.OfDevice(d.Number)
	return nil
}

// contentOf returns BlockDevice.Content: diskseq, and what the kernel counts of writes.
func contentOf(device sysfs.Device) (string, error) {
	diskseq, err1 := device.Attribute("diskseq")
	stat, err2 := device.Attribute("stat")
	counters := []string{strings.TrimSpace(diskseq)}
	// Writes, merged writes, sectors written; discards, merged discards, sectors discarded.
	for i, field := range strings.Fields(stat) {
		if i >= 4 && i <= 6 || i >= 11 && i <= 13 {
			counters = append(counters, field)
		}
	}
	return strings.Join(counters, " "), cmp.Or(err1, err2)
}

func partitionsOf(device sysfs.Device) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(string(device), "*/partition"))
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	return names, err
}

// buses have the directory of a device that shows its transport; the first that matches counts.
// A device is in the directories of what it is attached to.
var buses = []struct {
	element   *regexp.Regexp
	transport disk.Transport
}{
	{regexp.MustCompile(`^session\d+$`), disk.ISCSI},
	{regexp.MustCompile(`^rport-\d`), disk.FC},
	{regexp.MustCompile(`^usb\d+$`), disk.USB},
	{regexp.MustCompile(`^mmc_host$`), disk.MMC},
	{regexp.MustCompile(`^(end_device-|sas_)`), disk.SAS},
	{regexp.MustCompile(`^ata\d+$`), disk.SATA},
	{regexp.MustCompile(`^nvme$`), disk.NVMe},
	{regexp.MustCompile(`^virtio\d+$`), disk.Virtio},
	{regexp.MustCompile(`(?i)^vmbus`), disk.VMBus},
	{regexp.MustCompile(`^vbd-\d`), disk.Xen},
	{regexp.MustCompile(`^host\d+$`), disk.SCSI},
}

// transportOf returns the transport of a device; empty for one without hardware.
func transportOf(device sysfs.Device, sys string) (disk.Transport, error) {
	root, err := filepath.EvalSymlinks(filepath.Join(sys, "devices"))
	if err != nil {
		return "", err
	}
	inner, err := filepath.Rel(root, string(device))
	if err != nil {
		return "", err
	}
	elements := strings.Split(inner, "/")
	if elements[0] == "virtual" {
		return ofVirtual(device, elements)
	}
	for _, bus := range buses {
		if slices.ContainsFunc(elements, bus.element.MatchString) {
			return bus.transport, nil
		}
	}
	return disk.OtherBus, nil
}

// ofVirtual returns the transport of a device without a bus: NVMe over a fabric, and NVMe
// namespaces with several paths, which are in their subsystem's directory. Such a namespace is
// local if its controllers are.
func ofVirtual(device sysfs.Device, elements []string) (disk.Transport, error) {
	switch {
	case len(elements) < 2 || !strings.HasPrefix(elements[1], "nvme"):
		return "", nil
	case elements[1] != "nvme-subsystem":
		return disk.NVMeFabric, nil
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(string(device)), "nvme*/transport"))
	if err != nil {
		return "", err
	}
	local := len(files) > 0
	for _, file := range files {
		text, err := sysfs.Device(filepath.Dir(file)).Attribute("transport")
		if err != nil {
			return "", err
		}
		local = local && strings.TrimSpace(text) == "pcie"
	}
	if local {
		return disk.NVMe, nil
	}
	return disk.NVMeFabric, nil
}
