// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
)

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
	if place == "" {
		return number{}, "", errNoPlace
	}
	parts := strings.SplitN(place, ":", 4)
	switch {
	case len(parts) == 3 && parts[0] == "dev":
	case len(parts) == 4 && parts[0] == "fs" && path.IsAbs(parts[3]):
		root = path.Clean(parts[3])
	default:
		return number{}, "", fmt.Errorf("%q is neither dev:<major>:<minor> nor fs:<major>:<minor>:<root>", place)
	}
	n, err = parseNumber(parts[1] + ":" + parts[2])
	return n, root, err
}

// containsPath reports whether part is a sequence of whole elements of a path.
func containsPath(p, part string) bool { return strings.Contains(p+"/", "/"+part+"/") }
