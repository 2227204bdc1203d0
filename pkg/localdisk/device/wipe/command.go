// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/command"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// command runs the method's command.
func (r *run) command(ctx context.Context) error {
	if err := executable(r.Method.Name); err != nil {
		return err
	}
	if err := r.report(disk.Progress{}); err != nil {
		return err
	}
	cmd := exec.Command(r.Method.Name, r.Method.Args...)
	cmd.Env = []string{"LOCAL_PV_BLKDEVICE=" + r.Device, "PATH=" + toolPath}
	return command.Run(ctx, cmd)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return disk.Problemf(disk.CleanerMissing, "the provisioner's image has no command %s", path)
	case err != nil:
		return fmt.Errorf("find command: %w", err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return disk.Problemf(disk.CleanerMissing, "%s cannot be executed", path)
	default:
		return nil
	}
}
