// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"stowage.dev/stowage/pkg/localdisk/device/command"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// environment names the variable with the root's path.
const environment = "LOCAL_PV_FILESYSTEM"

// Run cleans the volume by a configured command: an absolute path and arguments. The command
// has the root's path in LOCAL_PV_FILESYSTEM. Nothing is open in the volume while it runs. The
// command and its process group are killed when ctx ends, and what remains of the group when
// the command exits or the provisioner does.
//
// Afterwards the root is verified again and must be empty, as by Empty; else the error is
// NotEmptyError. Then everything is synced. Mounts below the root are searched for before, as
// by Clean. The error of a failed command has the end of its output.
func (r *Root) Run(ctx context.Context, args []string) error {
	if len(args) == 0 || !filepath.IsAbs(args[0]) {
		return fmt.Errorf("clean %s: command %q is not an absolute path", r.path, args)
	}
	if err := r.do(r.checkMounts); err != nil {
		return err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), environment+"="+r.path)
	if err := command.Run(ctx, cmd); err != nil {
		return fmt.Errorf("clean %s by %q: %w", r.path, args, err)
	}
	if err := r.do(func(root int) error { return flush(root, r.path) }); err != nil {
		return err
	}
	content, what, err := r.Empty(ctx)
	if err != nil {
		return err
	}
	if content != disk.ContentNone {
		return &NotEmptyError{Path: r.path, What: what}
	}
	return nil
}
