// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// tools are the programs that real nodes take from the machine, and the Debian packages that
// have them.
var tools = map[string]string{
	"containerd":          "containerd",
	"ctr":                 "containerd",
	"runc":                "runc",
	"/usr/lib/cni/bridge": "containernetworking-plugins",
	busyboxPath:           "busybox-static",
	"iptables-restore":    "iptables",
	"ip":                  "iproute2",
	"nsenter":             "util-linux",
	"mount":               "mount",
	"mkfs.ext4":           "e2fsprogs",
}

// Missing returns an error that says why this machine cannot have real nodes, nil if it can.
func Missing() error {
	return missing(os.Geteuid() == 0, func(tool string) bool {
		_, err := exec.LookPath(tool)
		return err == nil
	})
}

// missing is Missing for a machine that has the tools that has says.
func missing(root bool, has func(tool string) bool) error {
	var errs []error
	if !root {
		errs = append(errs, errors.New("real nodes need root"))
	}
	var lack, packages []string
	for _, tool := range slices.Sorted(maps.Keys(tools)) {
		if !has(tool) {
			lack, packages = append(lack, tool), append(packages, tools[tool])
		}
	}
	if len(lack) > 0 {
		slices.Sort(packages)
		errs = append(errs, fmt.Errorf("real nodes need %s: apt-get install %s",
			strings.Join(lack, ", "), strings.Join(slices.Compact(packages), " ")))
	}
	return errors.Join(errs...)
}
