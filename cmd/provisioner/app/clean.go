// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/device/host"
	"stowage.dev/stowage/pkg/localdisk/device/ticket"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

const cleanDescription = `clean removes all data from one disk. Cleaning Jobs run it, which the controller creates
when a node's provisioner requests one: docs/provisioner.md.

It does nothing without the provisioner's ticket, and cleans only the disk with the given
identity. It writes the outcome to --result.`

// withdrawn is why a Job without a ticket does nothing.
const withdrawn disk.Reason = "TicketWithdrawn"

// cleanOptions are the flags of clean.
type cleanOptions struct {
	class, directory, name string
	volume, mode, identity string
	step, ticket, result   string
}

func newCleanCommand() *cobra.Command {
	o := &cleanOptions{}
	cmd := &cobra.Command{
		Use:    "clean --directory DIR --name NAME --identity IDENTITY --ticket FILE [-- METHOD [ARGUMENT ...]]",
		Short:  "Clean one disk, as a cleaning Job",
		Long:   cleanDescription,
		Hidden: true, // for Jobs, not for people
		RunE:   func(cmd *cobra.Command, method []string) error { return o.run(cmd, method) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.class, "class", "", "the disk's StorageClass")
	flags.StringVar(&o.directory, "directory", "", "the class's discovery directory, at its path on the node")
	flags.StringVar(&o.name, "name", "", "the disk's entry in it")
	flags.StringVar(&o.volume, "volume", "", "the volume whose data it is, for messages")
	flags.StringVar(&o.mode, "volume-mode", string(disk.Filesystem), "Filesystem or Block")
	flags.StringVar(&o.identity, "identity", "", "the identity that the disk must have")
	flags.StringVar(&o.step, "step", "", "the last step of an earlier attempt")
	flags.StringVar(&o.ticket, "ticket", "", "the file that the Job has to lock")
	flags.StringVar(&o.result, "result", "", "where to write the outcome; empty for nowhere")
	for _, name := range []string{"directory", "name", "identity", "ticket"} {
		_ = cmd.MarkFlagRequired(name) // fails for unknown flags only
	}
	return cmd
}

// run cleans, and writes a result in any case.
func (o *cleanOptions) run(cmd *cobra.Command, method []string) error {
	result := &resultFile{path: o.result, out: cmd.OutOrStdout()}
	result.Step = o.step
	if err := result.write(); err != nil {
		return err
	}
	err := o.clean(cmd.Context(), method, result)
	if err == nil {
		result.Clean, result.Step = true, ""
		fmt.Fprintf(result.out, "%s is clean\n", o.path())
		return result.write()
	}
	result.Reason, result.Message = disk.CleanFailed, err.Error()
	if problem, ok := errors.AsType[*disk.Problem](err); ok {
		result.Reason = problem.Reason
	}
	if cmd.Context().Err() != nil {
		result.Reason = disk.Interrupted
	}
	return errors.Join(err, result.write())
}

func (o *cleanOptions) path() string { return path.Join(o.directory, o.name) }

func (o *cleanOptions) check() error {
	switch {
	case !path.IsAbs(o.directory) || path.Clean(o.directory) != o.directory || o.directory == "/":
		return fmt.Errorf("--directory must be an absolute path below / without . and .., and is %q", o.directory)
	case o.name == "" || o.name == "." || o.name == ".." || strings.ContainsRune(o.name, '/'):
		return fmt.Errorf("--name must be the name of an entry of %s, and is %q", o.directory, o.name)
	case o.mode != string(disk.Filesystem) && o.mode != string(disk.Block):
		return fmt.Errorf("--volume-mode must be Filesystem or Block, and is %q", o.mode)
	case o.identity == "":
		return errors.New("--identity must be the identity of the disk, and is empty")
	default:
		return nil
	}
}

// clean locks the ticket, finds the disk, verifies its identity, and cleans it.
func (o *cleanOptions) clean(ctx context.Context, method []string, result *resultFile) error {
	if err := o.check(); err != nil {
		return err
	}
	if cleanjob.InProcess(method, o.step) {
		return errors.New("hdparm is for the provisioner only, which knows the drive's password")
	}
	held, err := ticket.Hold(o.ticket)
	if errors.Is(err, fs.ErrNotExist) {
		return disk.Problemf(withdrawn, "the provisioner of this node has withdrawn this Job")
	}
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	identity := disk.Identity(o.identity)
	// The ticket is on this machine only, so the identity's machine is this one.
	node, err := host.New(host.Config{Machine: identity.Machine()})
	if err != nil {
		return err
	}
	folder := disk.Folder{Class: o.class, HostPath: o.directory, Path: o.directory, Mode: disk.Mode(o.mode)}
	if identity.Kind() == disk.Directory {
		folder.Directories = []string{"*"}
	}
	fact, err := node.Find(ctx, folder, o.name)
	if err != nil {
		return err
	}
	if fact.Identity != identity {
		return disk.Problemf(disk.Replaced, "the disk at %s is %s and should be %s", o.path(), fact.Identity, identity)
	}
	fmt.Fprintf(result.out, "cleaning %s of volume %s, disk %s\n", o.path(), o.volume, identity)
	// The Job does not mount kubelet's folder, so no volume is named: the provisioner has checked
	// the mounts there.
	return node.Clean(ctx, disk.CleanRequest{Target: fact, Mode: disk.Mode(o.mode), Command: method, Step: o.step}, result.progress)
}

// resultFile is what kubelet reads when the container has ended.
type resultFile struct {
	cleanjob.Result
	path string
	out  io.Writer
}

// progress writes the step from which another attempt may resume.
func (f *resultFile) progress(p disk.Progress) error {
	fmt.Fprintf(f.out, "%s: %d of %d bytes\n", p.Method, p.Done, p.Total)
	if p.Step == f.Step {
		return nil
	}
	f.Step = p.Step
	return f.write()
}

// write overwrites the file. kubelet mounts it into the container, so that it cannot be
// replaced; a partial result is read as none.
func (f *resultFile) write() error {
	if f.path == "" {
		return nil
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	text := f.Encode()
	_, err = file.WriteAt(text, 0)
	if err := errors.Join(err, file.Truncate(int64(len(text))), file.Close()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
