// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health reads signs that disks are failing: from mountinfo and sysfs, from the kernel's
// log, from drives, and by reading 4 KiB of each disk. It does not judge them; package decide does.
package health

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Reader reads the health of the disks of a node. Use New. It is safe for concurrent use.
type Reader struct {
	// sys is where sysfs is, dev where device nodes are.
	sys, dev string
	// mountinfo has the mounts of the host.
	mountinfo string

	mu     sync.Mutex
	reads  map[disk.Identity]*read
	smart  map[disk.Identity]time.Time // when the log of an NVMe drive was last read
	stalls map[string]*stall           // by device number
	log    kernelLog
	drives smartctl
}

// New returns a reader. The kernel's log is at kmsg in dev. ATA and SAS drives are read if smartctl
// is in the PATH.
func New(sys, dev, mountinfo string) *Reader {
	return &Reader{
		sys: sys, dev: dev, mountinfo: mountinfo,
		reads: map[disk.Identity]*read{}, smart: map[disk.Identity]time.Time{}, stalls: map[string]*stall{}, log: kernelLog{path: filepath.Join(dev, "kmsg")},
		drives: newSmartctl(),
	}
}

// device is a block device of a target.
type device struct {
	sysfs.Device
	number string
	// name is the kernel's ("sdb1"), path the node.
	name, path string
	// part distinguishes the devices of a target, and does not change at a restart of the node.
	part string
}

// target is a disk with its devices and mounts at the moment.
type target struct {
	disk.HealthTarget
	devices []device
	// mounts are those of the host, visible are the mount points in this process's namespace.
	mounts  []*mounts.Mount
	visible []*mounts.Mount
}

// ReadHealth returns the signs of each disk that has any. A disk that has not answered for hungAfter
// hangs. It returns even if disks do not answer: the reads of a disk, and of what its drive reports,
// have a goroutine each, which only the kernel can end.
func (r *Reader) ReadHealth(targets []disk.HealthTarget, hungAfter time.Duration) (map[disk.Identity][]disk.Sign, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	host, err := mounts.Read(r.mountinfo)
	if err != nil {
		return nil, err
	}
	self, err := mounts.Read(mounts.Self)
	if err != nil {
		return nil, err
	}
	signs := map[disk.Identity][]disk.Sign{}
	r.drives.starts = smartctlStarts
	var all []target
	for _, t := range targets {
		at := r.locate(t, host, self)
		all = append(all, at)
		if found := slices.Concat(stopped(&at, host), readOnly(&at), r.counted(&at), r.drives.signs(&at, time.Now()), r.probe(&at, hungAfter)); len(found) > 0 {
			signs[t.Identity] = found
		}
	}
	for id, sign := range r.log.signs(all) {
		signs[id] = append(signs[id], sign)
	}
	r.forget(all)
	return signs, nil
}

// locate finds the devices and mounts of a target. Those that are gone are left out.
func (r *Reader) locate(t disk.HealthTarget, host, self *mounts.Table) target {
	at := target{HealthTarget: t}
	for _, place := range t.Places {
		kind, rest, _ := strings.Cut(place, ":")
		numbers := strings.SplitN(rest, ":", 3)
		if len(numbers) < 2 {
			continue
		}
		if kind == "fs" {
			major, err1 := strconv.ParseUint(numbers[0], 10, 32)
			minor, err2 := strconv.ParseUint(numbers[1], 10, 32)
			if err1 == nil && err2 == nil {
				at.mounts = append(at.mounts, host.OfDevice(uint32(major), uint32(minor))...)
				at.visible = append(at.visible, visible(self, uint32(major), uint32(minor))...)
			}
			if numbers[0] == "0" {
				continue // on several devices, which overlap
			}
		}
		number := numbers[0] + ":" + numbers[1]
		if slices.ContainsFunc(at.devices, func(d device) bool { return d.number == number }) {
			continue
		}
		if d, ok := r.device(number); ok {
			at.devices = append(at.devices, d)
		}
	}
	return at
}

// visible returns the mounts of a device that are not hidden by others.
func visible(table *mounts.Table, major, minor uint32) []*mounts.Mount {
	return slices.DeleteFunc(table.OfDevice(major, minor), func(m *mounts.Mount) bool {
		top, ok := table.At(m.Point)
		return !ok || top != m
	})
}

func (r *Reader) device(number string) (device, bool) {
	found, err := sysfs.Block(r.sys, number)
	if err != nil {
		return device{}, false
	}
	d := device{Device: found, number: number, name: filepath.Base(string(found))}
	d.path = filepath.Join(r.dev, strings.ReplaceAll(d.name, "!", "/"))
	partition, _ := found.Attribute("partition")
	mapped, _ := found.Attribute("dm/name")
	d.part = strings.TrimSpace(partition + mapped)
	return d, true
}

// stopped returns a sign if the kernel has stopped writing to a file system of a disk.
func stopped(t *target, table *mounts.Table) []disk.Sign {
	for _, m := range t.mounts {
		if fault := table.Fault(m); fault != "" {
			return []disk.Sign{{Reason: disk.FilesystemError, Message: fmt.Sprintf("the %s file system %s", m.FSType, fault)}}
		}
	}
	return nil
}

// readOnly returns a sign if a device of a disk rejects writes.
func readOnly(t *target) []disk.Sign {
	for _, d := range t.devices {
		if ro, err := d.Int("ro"); err == nil && ro != 0 {
			return []disk.Sign{{Reason: disk.DeviceReadOnly, Message: d.path + " rejects writes"}}
		}
	}
	return nil
}

// counted returns a sign for each counter of errors that file systems of the disk keep.
func (r *Reader) counted(t *target) []disk.Sign {
	var signs []disk.Sign
	for _, d := range t.devices {
		if n, err := sysfs.Device(filepath.Join(r.sys, "fs/ext4", d.name)).Int("errors_count"); err == nil {
			signs = append(signs, counter("ext4 "+d.part, n))
		}
		for _, pool := range glob(filepath.Join(r.sys, "fs/btrfs/*/devices", d.name)) {
			folder := filepath.Dir(filepath.Dir(pool))
			var sum int64
			for _, file := range glob(filepath.Join(folder, "devinfo/*/error_stats")) {
				sum += btrfsErrors(file)
			}
			signs = append(signs, counter("btrfs "+filepath.Base(folder), sum))
		}
	}
	return slices.CompactFunc(signs, func(a, b disk.Sign) bool { return a.Counter == b.Counter })
}

func counter(name string, value int64) disk.Sign {
	kind, _, _ := strings.Cut(name, " ")
	return disk.Sign{Reason: disk.DiskErrors, Message: "the " + kind + " file system counted errors", Counter: name, Value: uint64(value)}
}

// btrfsErrors returns the sum of the error counters of a device in btrfs; 0 if it is gone.
func btrfsErrors(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	var sum int64
	for line := range strings.Lines(string(text)) {
		if _, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			n, _ := strconv.ParseInt(value, 10, 64)
			sum += n
		}
	}
	return sum
}

func glob(pattern string) []string {
	names, _ := filepath.Glob(pattern) // by its form no error
	return names
}

// forget removes what is known about disks that are not watched any more. A read that does not
// answer is kept.
func (r *Reader) forget(watched []target) {
	identities, numbers := map[disk.Identity]bool{}, map[string]bool{}
	for _, t := range watched {
		identities[t.Identity] = true
		for _, d := range t.devices {
			numbers[d.number] = true
		}
	}
	for id, read := range r.reads {
		if !identities[id] && read.ended() {
			delete(r.reads, id)
		}
	}
	for id := range r.smart {
		if !identities[id] {
			delete(r.smart, id)
		}
	}
	for id, run := range r.drives.runs {
		if !identities[id] && run.ended() {
			delete(r.drives.runs, id)
		}
	}
	for number := range r.stalls {
		if !numbers[number] {
			delete(r.stalls, number)
		}
	}
}
