// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/test/deadline"
)

const (
	// progressPeriod is how often a long build reports progress.
	progressPeriod = 20 * time.Second
	// lockRetry is how often a lock that another process holds is tried again:
	// waiting for a file lock cannot be interrupted.
	lockRetry = 200 * time.Millisecond
)

// buildJob is one binary to build.
type buildJob struct {
	module   string   // folder of the module
	pkg      string   // import path of the command
	out      string   // path of the binary
	args     []string // for "go build"
	label    string   // what progress calls it
	progress io.Writer
}

// unfinishedPrefix begins the names of the folders that builds take place in.
const unfinishedPrefix = ".building-"

// goBuild builds in a temporary folder next to the binary's path and moves the
// binary there once it is complete, so that a binary that exists is a whole one.
// The caller holds the lock of the folder that the binary is in.
func goBuild(ctx context.Context, j buildJob) error {
	if _, err := os.Stat(j.out); err == nil {
		// The go command leaves an up-to-date file alone.
		return j.run(ctx, j.out)
	}
	if err := removeUnfinished(filepath.Dir(j.out)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(j.out), unfinishedPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	unfinished := filepath.Join(dir, filepath.Base(j.out))
	if err := j.run(ctx, unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, j.out)
}

// removeUnfinished removes the files of builds that were killed.
func removeUnfinished(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, unfinishedPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

func (j buildJob) run(ctx context.Context, out string) error {
	cmd := goCommand(ctx, j.module, slices.Concat([]string{"build", "-buildvcs=false", "-o", out}, j.args, []string{j.pkg})...)
	// Interrupted rather than killed, the go command ends its compilers and
	// removes its temporary files.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = deadline.Wait() / 6
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build %s: %w: is Go installed and on PATH?", j.pkg, err)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	ticker := time.NewTicker(progressPeriod)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("build %s: %w\n%s", j.pkg, errors.Join(err, ctx.Err()), output.Bytes())
			}
			return nil
		case <-ticker.C:
			fmt.Fprintf(j.progress, "  still building %s after %s\n", j.label, time.Since(begin).Round(time.Second))
		}
	}
}

// lockFile locks the file exclusively, and returns the function that unlocks it. The end of
// the process unlocks it too. waiting is called once if another process holds the lock.
func lockFile(ctx context.Context, path string, waiting func()) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockRetry)
	defer ticker.Stop()
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told {
			waiting()
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for the process that holds %s: %w", path, ctx.Err())
		case <-ticker.C:
		}
	}
}
