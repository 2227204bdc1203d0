// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage finds what on a node uses a disk. For a candidate or a volume: does the node
// use it, or the disk that it is a part of, for something else (Survey.BlockingUsers)? Before a
// device is published, and before any disk is cleaned: does anything at all use its bytes
// (Finder.Users)? After an error the disk must be treated as in use.
//
// BlockingUsers is called at every scan, and reads sysfs and mountinfo only, which do not show every
// use: ZFS, DRBD, iSCSI targets (LIO) and mounts in other namespaces leave no trace there.
// Users asks the kernel, by opening the device with O_EXCL; sysfs and mountinfo only name what
// holds it. It also opens the loop devices of the node, which do not hold their backing device
// exclusively.
//
// Neither detects a process that has a device open without O_EXCL.
package usage

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
)

// Config locates the node's files. All fields are required except KubeletPath.
type Config struct {
	// Mountinfo has the mounts of the host ("/proc/1/mountinfo"), Swaps its swap space
	// ("/proc/swaps").
	Mountinfo, Swaps string
	// Sys and Dev are where sysfs and the host's device nodes are.
	Sys, Dev string
	// KubeletDir is kubelet's root directory on the host; KubeletPath is where this
	// process finds it, empty for the same place.
	KubeletDir, KubeletPath string
}

// Finder finds what uses a disk. It is stateless, and safe for concurrent use.
type Finder struct {
	config Config
}

// New validates the configuration and returns a Finder.
func New(c Config) (*Finder, error) {
	if c.KubeletPath == "" {
		c.KubeletPath = c.KubeletDir
	}
	for name, value := range map[string]*string{
		"Mountinfo": &c.Mountinfo, "Swaps": &c.Swaps, "Sys": &c.Sys, "Dev": &c.Dev,
		"KubeletDir": &c.KubeletDir, "KubeletPath": &c.KubeletPath,
	} {
		if !path.IsAbs(*value) {
			return nil, fmt.Errorf("usage: %s must be an absolute path, not %q", name, *value)
		}
		*value = path.Clean(*value)
	}
	return &Finder{config: c}, nil
}

// Survey is a snapshot of a node. It is immutable, and safe for concurrent use.
type Survey struct {
	table   *mounts.Table
	devices *devices
	swaps   []swap
	loops   []loop
	layers  []layer
	// mounted has the mounts that hold a device, its bind-mounted nodes included.
	mounted map[*device][]*mounts.Mount
	// folders are the discovery directories on the host, kubelet its folder there.
	folders []string
	kubelet string
}

// spot is where a path of the host leads to: a device, or a file of a file system.
type spot struct {
	device *device
	fs     number
	// file is the path within the file system.
	file string
	// known reports whether the path leads anywhere.
	known bool
	// mayHang reports whether it leads to a file system that may never answer.
	mayHang bool
}

// swap is swap space, loop an attached loop device, layer a folder of a mounted overlay, with
// their locations.
type (
	layer struct {
		point string
		at    spot
	}
	swap struct {
		path string
		at   spot
	}
	loop struct {
		device *device
		at     spot
	}
)

// Survey reads sysfs and the list of swaps, and accesses no device and no mount. table has the
// host's mounts; if it is nil, they are read. folders are the discovery directories, as paths
// on the host without symlinks.
func (f *Finder) Survey(table *mounts.Table, folders []string) (*Survey, error) {
	if table == nil {
		var err error
		if table, err = mounts.Read(f.config.Mountinfo); err != nil {
			return nil, err
		}
	}
	swaps, err := mounts.Swaps(f.config.Swaps)
	if err != nil {
		return nil, err
	}
	ds, err := readDevices(f.config.Sys)
	if err != nil {
		return nil, err
	}
	s := &Survey{
		table: table, devices: ds, kubelet: f.config.KubeletDir,
		mounted: make(map[*device][]*mounts.Mount),
	}
	for _, folder := range folders {
		s.folders = append(s.folders, path.Clean(folder))
	}
	for _, p := range swaps {
		s.swaps = append(s.swaps, swap{path: p, at: s.locate(p)})
	}
	s.attachLoops()
	for _, m := range table.All() {
		for _, folder := range layersOf(m) {
			s.layers = append(s.layers, layer{point: m.Point, at: s.locate(folder)})
		}
		for _, d := range s.holds(m) {
			s.mounted[d] = append(s.mounted[d], m)
		}
	}
	return s, nil
}

// attachLoops puts each loop device over the device that it is attached to.
func (s *Survey) attachLoops() {
	for _, d := range s.devices.all {
		if d.backing == "" {
			continue
		}
		at := s.locate(d.backing)
		s.loops = append(s.loops, loop{device: d, at: at})
		if at.device != nil {
			at.device.addOver(d)
		}
	}
}

// layersOf returns the folders of an overlay, such as a container's root, as far as it reports
// their whole paths.
func layersOf(m *mounts.Mount) []string {
	if m.FSType != "overlay" {
		return nil
	}
	var folders []string
	for _, o := range m.SuperOptions {
		key, value, _ := strings.Cut(o, "=")
		switch strings.TrimSuffix(key, "+") {
		case "lowerdir", "datadir":
			folders = append(folders, strings.Split(value, ":")...)
		case "upperdir", "workdir":
			folders = append(folders, value)
		}
	}
	return folders
}

var errNoPlace = errors.New("the fact has no place")

// target is the bytes of a fact: a device's, or those of a folder of a file system.
type target struct {
	device *device
	fs     number
	root   string
	// files is the device number of the file system's files, if it differs from fs: btrfs has
	// one for each subvolume. Zero if it was not read.
	files number
}

// target returns the target of a Place.
func (s *Survey) target(place string) (target, error) {
	n, root, err := parsePlace(place)
	if err != nil {
		return target{}, err
	}
	if root != "" {
		return target{fs: n, root: root}, nil
	}
	d := s.devices.byNumber[n]
	if d == nil {
		return target{}, fmt.Errorf("block device %s does not exist", n)
	}
	return target{device: d}, nil
}

// Overlaps returns the Places that share bytes with a Place, without itself, in
// order: the disk of a partition, the partitions of a disk, what a device is made of
// (the slaves of a device-mapper, md or loop device) and what is made of it, the
// devices of a file system and the file systems mounted from a device.
func (s *Survey) Overlaps(place string) ([]string, error) {
	t, err := s.target(place)
	if err != nil {
		return nil, fmt.Errorf("find what overlaps %q: %w", place, err)
	}
	var found []string
	for _, d := range s.devicesOf(t) {
		for _, o := range d.overlap() {
			found = append(found, o.place())
			if t.device == nil {
				continue
			}
			for _, m := range s.mounted[o] {
				if !isNode(m) {
					found = append(found, m.Place(m.Point))
				}
			}
		}
	}
	if t.device == nil {
		for _, m := range s.table.OfDevice(t.fs.major, t.fs.minor) {
			if mounts.Within(t.root, m.Root) || mounts.Within(m.Root, t.root) {
				found = append(found, m.Place(m.Point))
			}
		}
	}
	slices.Sort(found)
	found = slices.DeleteFunc(slices.Compact(found), func(p string) bool { return p == place })
	return found, nil
}

// devicesOf returns the devices that the target's bytes are on.
func (s *Survey) devicesOf(t target) []*device {
	if t.device != nil {
		return []*device{t.device}
	}
	if ms := s.table.OfDevice(t.fs.major, t.fs.minor); len(ms) > 0 {
		return s.holds(ms[0])
	}
	if d := s.devices.byNumber[t.fs]; d != nil {
		return []*device{d}
	}
	return nil
}

// own reports whether a path is kubelet's for one of the provisioner's volumes.
func own(volume, p string) bool {
	return volume != "" && slices.ContainsFunc(kubeletPlaces, func(place string) bool {
		return containsPath(p, place+"/"+volume)
	})
}
