// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
)

// viewOfUser makes a view of the machine that a user other than root may read, and returns the
// provisioner's arguments for it. Only root may read what process 1 has mounted, and
// ask loop devices of which file they are. Neither concerns folders that were made a
// moment ago, for a demo.
func viewOfUser(folder string) (args []string, err error) {
	proc, sys := filepath.Join(folder, "proc"), filepath.Join(folder, "sys")
	block := filepath.Join(sys, "class/block")
	for _, path := range []string{filepath.Join(proc, "1"), block} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
	}
	links := map[string]string{
		filepath.Join(proc, "1/mountinfo"): "/proc/self/mountinfo",
		filepath.Join(proc, "swaps"):       "/proc/swaps",
		filepath.Join(sys, "dev"):          "/sys/dev",
		filepath.Join(sys, "fs"):           "/sys/fs",
	}
	devices, err := os.ReadDir("/sys/class/block")
	if err != nil {
		return nil, err
	}
	for _, device := range devices {
		if at := filepath.Join("/sys/class/block", device.Name()); !attached(at) {
			links[filepath.Join(block, device.Name())] = at
		}
	}
	for link, to := range links {
		if err := os.Symlink(to, link); err != nil {
			return nil, err
		}
	}
	return []string{"--host-proc=" + proc, "--host-sys=" + sys}, nil
}

// attached reports whether a device is a loop device with a file, or a partition of one.
func attached(device string) bool {
	if !strings.HasPrefix(filepath.Base(device), "loop") {
		return false
	}
	for _, sign := range []string{"loop", "partition"} {
		if _, err := os.Stat(filepath.Join(device, sign)); err == nil {
			return true
		}
	}
	return false
}
