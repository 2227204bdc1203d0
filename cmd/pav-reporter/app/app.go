// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app is the stowage-pav-reporter command: run is the native sidecar of a helper pod, started
// its postStart hook, ready its readiness probe.
package app

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/pav/pavdir"
	"stowage.dev/stowage/pkg/pav/report"
)

const usage = `stowage-pav-reporter reports what the containers of a PaV helper pod leave in /pav.

  stowage-pav-reporter run       wait for SIGTERM, then write the report to the termination message
  stowage-pav-reporter started   exit with 0 as soon as run waits
  stowage-pav-reporter ready     exit with 0 if /pav/ready and the volume at /pav/volume exist

Each has a flag -help.
`

// Main runs the command and returns its exit code: 0, 1 if it fails or the volume is not ready, 2
// if an argument is wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	commands := map[string]func(*flag.FlagSet, []string, io.Writer) error{"run": run, "started": started, "ready": ready}
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

// message adds the flag that names the file of the termination message. No other container has it.
func message(flags *flag.FlagSet) *string {
	return flags.String("message", "/dev/termination-log", "file of the termination message")
}

// run writes the report when the process receives SIGTERM, which kubelet sends to native sidecars
// after the main containers have ended. It locks the file of the message and prints a line when it
// begins to wait, and prints the report.
func run(flags *flag.FlagSet, args []string, stdout io.Writer) error {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT)
	path := directory(flags)
	messagePath := message(flags)
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
	file, err := os.OpenFile(*messagePath, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open the termination message: %w", err)
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock the termination message: %w", err)
	}
	fmt.Fprintln(stdout, "waiting for SIGTERM")
	<-terminated
	text, err := report.Encode(dir.Report(), *limit)
	if err != nil {
		return err
	}
	if err := overwrite(file, text); err != nil {
		return fmt.Errorf("write the termination message: %w", err)
	}
	fmt.Fprintln(stdout, text)
	return nil
}

// overwrite replaces what a file contains.
func overwrite(file *os.File, text string) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteString(text)
	return err
}

// started returns when the process of run waits for SIGTERM. Linux drops a signal for the first
// process of a container that has no handler for it, so that kubelet would kill a reporter whose
// other containers end sooner, and there would be no report. Kubelet starts the other containers
// after the hook, and terminates none of the pod's meanwhile.
func started(flags *flag.FlagSet, args []string, _ io.Writer) error {
	path := message(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	file, err := os.Open(*path)
	if err != nil {
		return fmt.Errorf("open the termination message: %w", err)
	}
	defer file.Close()
	for {
		switch err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
		case errors.Is(err, unix.EWOULDBLOCK):
			return nil
		case err != nil:
			return fmt.Errorf("lock the termination message: %w", err)
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_UN); err != nil {
			return fmt.Errorf("unlock the termination message: %w", err)
		}
		time.Sleep(5 * time.Millisecond) // a lock that is taken cannot be waited for
	}
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
	exists, err := dir.Exists(pavdir.Ready)
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
	return volume.Fits(kind, bytes)
}
