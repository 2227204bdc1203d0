// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package supervise

import "syscall"

// childAttributes puts a child into its own process group, out of reach of the
// terminal's Ctrl-C. There is no parent-death signal here: children survive if
// the supervisor itself, rather than its client, is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
