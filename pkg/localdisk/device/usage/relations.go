// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package usage

import "slices"

// below returns what a device's bytes are a part of, or made of, however far down,
// the device itself not included.
func (d *device) below() []*device { return reach(d, func(d *device) []*device { return d.under }) }

// above returns what is made of a device's bytes, however far up, the device itself
// not included.
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

// reach follows next from d until nothing new is found. Damaged trees may have
// circles.
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
