// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the stowage-pav-reporter command: run is the native sidecar of a helper pod, ready
// its readiness probe.
package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"stowage.dev/stowage/pkg/pav/pavdir"
	"stowage.dev/stowage/pkg/pav/report"
)

const usage = `stowage-pav-reporter reports what the containers of a PaV helper pod leave in /pav.

  stowage-pav-reporter run     wait for SIGTERM, then write the report to the termination message
  stowage-pav-reporter ready   exit with 0 if /pav/ready and the volume at /pav/volume exist

Each has a flag -help.
`

// Main runs the command and returns its exit code: 0, 1 if it fails or the volume is not ready, 2
// if an argument is wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	commands := map[string]func(*flag.FlagSet, []string, io.Writer) error{"run": run, "ready": ready}
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprint(stderr, usage)
		return 2
	}
	flags := flag.NewFlagSet("stowage-pav-reporter "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	err := commands[args[0]](flags, args[1:], stdout)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, new(argumentError)):
		fmt.Fprintln(stderr, flags.Name()+":", err)
		return 2
	}
	fmt.Fprintln(stderr, flags.Name()+":", err)
	return 1
}

// argumentError is an invalid argument.
type argumentError struct{ error }

// parse parses flags. No other arguments are allowed.
func parse(flags *flag.FlagSet, args []string) error {
	output := flags.Output()
	flags.SetOutput(io.Discard) // Main prints the error
	err := flags.Parse(args)
	flags.SetOutput(output)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.PrintDefaults()
		return err
	case err != nil:
		return argumentError{err}
	case flags.NArg() > 0:
		return argumentError{fmt.Errorf("argument %q: only flags are allowed", flags.Arg(0))}
	}
	return nil
}

// directory adds the flag that names the directory.
func directory(flags *flag.FlagSet) *string {
	return flags.String("directory", pavdir.Path, "directory that all containers of the pod share")
}

// run writes the report when the process receives SIGTERM, which kubelet sends to native sidecars
// after the main containers have ended. It prints when it begins to wait, and the report.
func run(flags *flag.FlagSet, args []string, stdout io.Writer) error {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT)
	path := directory(flags)
	message := flags.String("message", "/dev/termination-log", "file of the termination message")
	limit := flags.Int("limit", report.MaxBytes, "size of the report in bytes, at most")
	if err := parse(flags, args); err != nil {
		return err
	}
	if _, err := report.Encode(report.Report{}, *limit); err != nil {
		return argumentError{fmt.Errorf("-limit: %w", err)}
	}
	// It is opened before the containers start, and stays open whatever they do.
	dir, err := pavdir.Open(*path)
	if err != nil {
		return err
	}
	defer dir.Close()
	fmt.Fprintln(stdout, "waiting for SIGTERM")
	<-terminated
	text, err := report.Encode(dir.Report(), *limit)
	if err != nil {
		return err
	}
	if err := os.WriteFile(*message, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the termination message: %w", err)
	}
	fmt.Fprintln(stdout, text)
	return nil
}

// ready prints why the volume is not ready.
func ready(flags *flag.FlagSet, args []string, stdout io.Writer) error {
	path := directory(flags)
	mode := flags.String("volume-mode", "Filesystem", "what /pav/volume must be: Filesystem (a directory) or Block (a block device)")
	bytes := flags.Int64("min-bytes", 0, "size of the block device in bytes, at least")
	if err := parse(flags, args); err != nil {
		return err
	}
	kind, known := map[string]report.Kind{"Filesystem": report.Directory, "Block": report.BlockDevice}[*mode]
	if !known {
		return argumentError{fmt.Errorf("-volume-mode=%s: must be Filesystem or Block", *mode)}
	}
	dir, err := pavdir.Open(*path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := check(dir, kind, *bytes); err != nil {
		fmt.Fprintln(stdout, err)
		return errNotReady
	}
	return nil
}

var errNotReady = errors.New("the volume is not ready")

// check returns why the directory has no volume of a kind that is ready. bytes are the least size
// of a block device.
func check(dir *pavdir.Dir, kind report.Kind, bytes int64) error {
	exists, err := dir.Exists("ready")
	if err != nil {
		return err
	}
	if !exists {
		return errors.New("/pav/ready does not exist")
	}
	volume, err := dir.Volume()
	if err != nil {
		return err
	}
	return fits(volume, kind, bytes)
}

// fits returns why a volume is not of a kind and size.
func fits(volume report.Volume, kind report.Kind, bytes int64) error {
	switch {
	case volume.Kind == "":
		return errors.New("/pav/volume does not exist")
	case volume.Kind != kind:
		return fmt.Errorf("/pav/volume: is a %s, must be a %s", volume.Kind, kind)
	case kind == report.BlockDevice && volume.Bytes < bytes:
		return fmt.Errorf("/pav/volume: has %d bytes, must have at least %d", volume.Bytes, bytes)
	}
	return nil
}
