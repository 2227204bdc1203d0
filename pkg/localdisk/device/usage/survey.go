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
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
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
	// pathUses are swap space, attached loop devices and the layers of mounted overlays.
	pathUses []use
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
	swaps, err1 := mounts.Swaps(f.config.Swaps)
	ds, err2 := readDevices(f.config.Sys)
	if err := cmp.Or(err1, err2); err != nil {
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
		s.pathUses = append(s.pathUses, use{User: disk.User{What: bySwap, Where: p}, at: s.locate(p)})
	}
	for _, d := range ds.all {
		if d.backing == "" {
			continue
		}
		at := s.locate(d.backing)
		s.pathUses = append(s.pathUses, use{User: disk.User{What: byLoop, Where: d.path()}, path: d.backing, at: at, loop: d})
		if at.device != nil {
			at.device.addOver(d)
		}
	}
	for _, m := range table.All() {
		for _, folder := range layersOf(m) {
			s.pathUses = append(s.pathUses, use{User: disk.User{What: byMount, Where: m.Point}, path: m.Point, at: s.locate(folder)})
		}
		for _, d := range s.holds(m) {
			s.mounted[d] = append(s.mounted[d], m)
		}
	}
	return s, nil
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

// own reports whether a path is kubelet's for one of the provisioner's volumes, or where the
// provisioner has mounted it.
func own(volume, p string) bool {
	if volume == "" {
		return false
	}
	mounted := path.Base(p) == volume && path.Dir(path.Dir(p)) == disk.MountFolder
	return mounted || slices.ContainsFunc(kubeletPlaces, func(place string) bool {
		return containsPath(p, place+"/"+volume)
	})
}

// locate finds where a path of the host leads, without accessing it. Paths from other mount
// namespaces may lead elsewhere here.
func (s *Survey) locate(p string) spot {
	p = strings.TrimSuffix(p, " (deleted)")
	if !path.IsAbs(p) {
		return spot{}
	}
	p = path.Clean(p)
	m, ok := s.table.Over(p)
	if !ok {
		return spot{device: s.node(strings.TrimPrefix(p, "/dev"))}
	}
	inner := m.Inside(p)
	at := spot{fs: numberOf(m), file: inner, known: true}
	switch {
	case m.FSType == "devtmpfs":
		at.device = s.node(inner)
	case strings.HasPrefix(p, "/dev/"):
		at.device = s.node(strings.TrimPrefix(p, "/dev")) // a container's
	default:
		at.mayHang = !mounts.Supported(m.FSType)
	}
	return at
}

// node returns the device whose node has this path within /dev, nil if there is none.
func (s *Survey) node(p string) *device {
	p = strings.TrimPrefix(p, "/")
	if name, ok := strings.CutPrefix(p, "mapper/"); ok {
		return s.devices.mapped[name]
	}
	return s.devices.byName[strings.ReplaceAll(p, "/", "!")]
}

// isNode reports whether a mount is of a device's node, which is how kubelet passes a raw
// device to a pod.
func isNode(m *mounts.Mount) bool { return m.FSType == "devtmpfs" && m.Root != "/" }

// holds returns the devices that a mount keeps busy.
func (s *Survey) holds(m *mounts.Mount) []*device {
	if isNode(m) {
		if d := s.node(m.Root); d != nil {
			return []*device{d}
		}
		return nil
	}
	if d := s.devices.byNumber[numberOf(m)]; d != nil {
		return []*device{d}
	}
	if m.Major != 0 {
		return nil
	}
	// The source of a file system without a device number names one device, or all, separated
	// by colons.
	var found []*device
	for source := range strings.SplitSeq(m.Source, ":") {
		if !strings.HasPrefix(source, "/") {
			continue
		}
		if d := s.locate(source).device; d != nil && !slices.Contains(found, d) {
			found = append(found, d)
		}
	}
	for _, members := range s.devices.pools {
		if m.FSType == "btrfs" && slices.ContainsFunc(members, func(d *device) bool { return slices.Contains(found, d) }) {
			return members
		}
	}
	return found
}

func numberOf(m *mounts.Mount) number { return number{m.Major, m.Minor} }

// parsePlace takes a Place apart. root is empty for a device.
func parsePlace(place string) (n number, root string, err error) {
	parts := strings.SplitN(place, ":", 4)
	switch {
	case len(parts) == 3 && parts[0] == "dev":
	case len(parts) == 4 && parts[0] == "fs" && path.IsAbs(parts[3]):
		root = path.Clean(parts[3])
	default:
		return number{}, "", fmt.Errorf("the place %q is neither dev:<major>:<minor> nor fs:<major>:<minor>:<root>", place)
	}
	n, err = parseNumber(parts[1] + ":" + parts[2])
	return n, root, err
}

// containsPath reports whether part is a sequence of whole elements of a path.
func containsPath(p, part string) bool { return strings.Contains(p+"/", "/"+part+"/") }
