// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package supervise

import "syscall"

// childAttributes puts a child into its own process group, out of reach of the
// terminal's Ctrl-C, and has the kernel kill it if the supervisor is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
