// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// number is a device number.
type number struct{ major, minor uint32 }

func (n number) String() string { return fmt.Sprintf("%d:%d", n.major, n.minor) }

// place is disk.Fact.Place of a device.
func (n number) place() string { return "dev:" + n.String() }

func parseNumber(s string) (number, error) {
	first, second, _ := strings.Cut(s, ":")
	major, err1 := strconv.ParseUint(first, 10, 32)
	minor, err2 := strconv.ParseUint(second, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return number{}, fmt.Errorf("parse device number %q: %w", s, err)
	}
	return number{uint32(major), uint32(minor)}, nil
}

// device is a block device, as sysfs describes it.
type device struct {
	number
	// name is the kernel's ("sdb1", "dm-0"), which is that of its node in /dev but
	// for slashes, which sysfs writes as "!".
	name string
	// under are the devices whose bytes it is made of: the disk of a partition, the slaves of a
	// holder, the device that a loop device is attached to. over is the same seen from there.
	under, over []*device
	// holders are those of over that hold the device by device mapper, md or bcache.
	holders []*device
	// whole is false for partitions.
	whole bool
	// backing is what a loop device is attached to: a path in the mount namespace of the
	// process that attached it.
	backing string
	// mapped is the device mapper name, empty for other devices.
	mapped string
}

// path returns the device's node.
func (d *device) path() string { return "/dev/" + strings.ReplaceAll(d.name, "!", "/") }

// devices are a node's block devices at one moment.
type devices struct {
	all      []*device
	byNumber map[number]*device
	byName   map[string]*device
	// mapped has those of device mapper by their names there.
	mapped map[string]*device
	// pools are the devices of each mounted btrfs.
	pools [][]*device
}

// readDevices reads sysfs. A device that disappears meanwhile is left out.
func readDevices(sys string) (*devices, error) {
	folder := filepath.Join(sys, "class/block")
	names, err := list(folder)
	if err != nil {
		return nil, fmt.Errorf("list block devices: %w", err)
	}
	if len(names) == 0 {
		// A table without devices would make each of them look unused.
		return nil, fmt.Errorf("list block devices: %s is empty", folder)
	}
	ds := &devices{byNumber: make(map[number]*device), byName: make(map[string]*device), mapped: make(map[string]*device)}
	for _, name := range names {
		d, err := readDevice(folder, name)
		if err != nil {
			return nil, fmt.Errorf("read block device %s: %w", name, err)
		}
		if d == nil {
			continue
		}
		ds.all = append(ds.all, d)
		ds.byName[d.name], ds.byNumber[d.number] = d, d
		if d.mapped != "" {
			ds.mapped[d.mapped] = d
		}
	}
	for _, d := range ds.all {
		if err := ds.connect(folder, d); err != nil {
			return nil, fmt.Errorf("read the devices below %s: %w", d.name, err)
		}
	}
	if ds.pools, err = ds.readPools(sys); err != nil {
		return nil, fmt.Errorf("read the devices of btrfs: %w", err)
	}
	return ds, nil
}

// readDevice returns nil for what is not a device that can be opened: one that has
// disappeared, or a path of a multipath device, which is hidden.
func readDevice(folder, name string) (*device, error) {
	var texts [4]string
	for i, file := range []string{"dev", "partition", "dm/name", "loop/backing_file"} {
		text, err := os.ReadFile(filepath.Join(folder, name, file))
		switch {
		case gone(err) && i == 0:
			return nil, nil
		case gone(err):
		case err != nil:
			return nil, err
		default:
			texts[i] = strings.TrimSuffix(string(text), "\n")
		}
	}
	n, err := parseNumber(texts[0])
	return &device{name: name, number: n, whole: texts[1] == "", mapped: texts[2], backing: texts[3]}, err
}

// connect links a device to those below it: slaves, and a partition's disk.
func (ds *devices) connect(folder string, d *device) error {
	slaves, err := list(filepath.Join(folder, d.name, "slaves"))
	if err != nil {
		return err
	}
	for _, name := range slaves {
		if slave := ds.byName[name]; slave != nil {
			slave.addOver(d)
			slave.holders = append(slave.holders, d)
		}
	}
	if d.whole {
		return nil
	}
	resolved, err := filepath.EvalSymlinks(filepath.Join(folder, d.name))
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	disk := ds.byName[filepath.Base(filepath.Dir(resolved))]
	if disk == nil {
		return errors.New("a partition without a disk")
	}
	disk.addOver(d)
	return nil
}

// addOver records that other is made of d's bytes.
func (d *device) addOver(other *device) {
	d.over = append(d.over, other)
	other.under = append(other.under, d)
}

// readPools reads which devices each mounted btrfs has: a mount names one of them.
func (ds *devices) readPools(sys string) ([][]*device, error) {
	folder := filepath.Join(sys, "fs/btrfs")
	ids, err := list(folder)
	if err != nil {
		return nil, err
	}
	var pools [][]*device
	for _, id := range ids {
		names, err := filepath.Glob(filepath.Join(folder, id, "devices/*"))
		if err != nil {
			return nil, err
		}
		var members []*device
		for _, name := range names {
			target, err := os.Readlink(name)
			if err != nil {
				continue // gone
			}
			if d := ds.byName[filepath.Base(target)]; d != nil {
				members = append(members, d)
			}
		}
		if len(members) > 0 {
			pools = append(pools, members)
		}
	}
	return pools, nil
}

// list returns the names in a folder, sorted; nil if it does not exist. It does not access the
// entries: some may be mounts.
func list(folder string) ([]string, error) {
	f, err := os.Open(folder)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1) // not nil, even if empty
	if gone(err) {
		return nil, nil
	}
	slices.Sort(names)
	return names, err
}

// gone reports whether an error means that something does not exist or no longer exists.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO)
}

// below returns what a device's bytes are a part of, or made of, however far down,
// the device itself not included.
func (d *device) below() []*device { return reach(d, func(d *device) []*device { return d.under }) }

// above returns what is made of a device's bytes, however far up, the device itself not included.
func (d *device) above() []*device { return reach(d, func(d *device) []*device { return d.over }) }

// overlap returns the devices that have bytes in common with d, d first.
func (d *device) overlap() []*device {
	return slices.Concat([]*device{d}, d.below(), d.above())
}

// disks returns the disks at the bottom of a device: itself, if none is below it.
func (d *device) disks() []*device {
	var bottom []*device
	for _, o := range append(d.below(), d) {
		if len(o.under) == 0 {
			bottom = append(bottom, o)
		}
	}
	return bottom
}

// neighbours returns the devices that are on the same disks as d without common bytes.
func (d *device) neighbours() []*device {
	own := d.overlap()
	var found []*device
	for _, disk := range d.disks() {
		for _, o := range disk.above() {
			if !slices.Contains(own, o) && !slices.Contains(found, o) {
				found = append(found, o)
			}
		}
	}
	return found
}

// reach follows next from d until nothing new is found. Damaged trees may have circles.
func reach(d *device, next func(*device) []*device) []*device {
	var found []*device
	seen := map[*device]bool{d: true}
	queue := []*device{d}
	for len(queue) > 0 {
		for _, o := range next(queue[0]) {
			if !seen[o] {
				seen[o] = true
				found = append(found, o)
				queue = append(queue, o)
			}
		}
		queue = queue[1:]
	}
	return found
}
