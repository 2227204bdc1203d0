// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requirements lists the programs that tests and the demo need on the machine, and
// the Debian packages that contain them. It is the only such list: `make e2e`, the demo and
// CI read it through hack/requirements.
package requirements

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Use is what a machine is used for.
type Use string

const (
	// Nodes are real nodes, which need root.
	Nodes Use = "nodes"
	// E2E are the end-to-end tests: Nodes, and the programs of single tests.
	E2E Use = "e2e"
	// Disks are the tests that make file systems, arrays and encrypted disks. Each skips
	// what it cannot make.
	Disks Use = "disks"
	// Browser are the tests of pages, which skip without it.
	Browser Use = "browser"
)

// Uses returns all uses.
func Uses() []Use { return []Use{Browser, Disks, E2E, Nodes} }

// program is a program, by name or absolute path, and the Debian package that contains it.
type program struct {
	name, debian string
	uses         []Use
}

var programs = []program{
	{"containerd", "containerd", []Use{Nodes, E2E}},
	{"ctr", "containerd", []Use{Nodes, E2E}},
	{"runc", "runc", []Use{Nodes, E2E}},
	{"/usr/lib/cni/bridge", "containernetworking-plugins", []Use{Nodes, E2E}},
	{"/usr/bin/busybox", "busybox-static", []Use{Nodes, E2E}},
	{"iptables-restore", "iptables", []Use{Nodes, E2E}},
	{"ip", "iproute2", []Use{Nodes, E2E}},
	{"nsenter", "util-linux", []Use{Nodes, E2E}},
	{"mount", "mount", []Use{Nodes, E2E, Disks}},
	{"mkfs.ext4", "e2fsprogs", []Use{Nodes, E2E, Disks}},
	{"docker-registry", "docker-registry", []Use{E2E}},
	{"bindfs", "bindfs", []Use{E2E, Disks}},
	{"losetup", "mount", []Use{E2E, Disks}},
	{"fusermount", "fuse3", []Use{E2E}},
	{"qemu-img", "qemu-utils", []Use{E2E}},
	{"qemu-storage-daemon", "qemu-system-common", []Use{E2E}},
	{"rclone", "rclone", []Use{E2E}},

	{"chromium", "chromium", []Use{Browser}},

	{"setfacl", "acl", []Use{Disks}},
	{"setfattr", "attr", []Use{Disks}},
	{"mkfs.btrfs", "btrfs-progs", []Use{E2E, Disks}},
	{"cryptsetup", "cryptsetup-bin", []Use{Disks}},
	{"mkfs.vfat", "dosfstools", []Use{Disks}},
	{"sfdisk", "fdisk", []Use{Disks}},
	{"sgdisk", "gdisk", []Use{Disks}},
	{"pvcreate", "lvm2", []Use{Disks}},
	{"mdadm", "mdadm", []Use{Disks}},
	{"blkid", "util-linux", []Use{Disks}},
	{"mkfs.xfs", "xfsprogs", []Use{Disks}},
}

// Packages returns the Debian packages that the uses need, sorted.
func Packages(uses ...Use) []string {
	var all []string
	for _, p := range programs {
		if slices.ContainsFunc(uses, func(u Use) bool { return slices.Contains(p.uses, u) }) {
			all = append(all, p.debian)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Missing returns an error that names all programs that this machine lacks for a use, and the
// command that installs them; nil if it lacks none.
func Missing(use Use) error {
	return missing(use, os.Geteuid() == 0, func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	})
}

// missing is Missing for a machine with the programs that has accepts.
func missing(use Use, root bool, has func(program string) bool) error {
	var errs []error
	if !root && use != Browser {
		errs = append(errs, fmt.Errorf("%s: root is needed", use))
	}
	var lack, packages []string
	for _, p := range programs {
		if slices.Contains(p.uses, use) && !has(p.name) {
			lack, packages = append(lack, p.name), append(packages, p.debian)
		}
	}
	if len(lack) > 0 {
		slices.Sort(lack)
		slices.Sort(packages)
		errs = append(errs, fmt.Errorf("%s: %s not found: apt-get install %s",
			use, strings.Join(lack, ", "), strings.Join(slices.Compact(packages), " ")))
	}
	return errors.Join(errs...)
}
