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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	// unfinished is the folder, beside a binary, that it is built in.
	unfinished = ".building"
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

// build builds in a folder next to the binary's path and moves the binary there once it is
// complete, so that a binary that exists is a whole one. The caller holds the lock of the folder
// that the binary is in.
func (j buildJob) build(ctx context.Context) error {
	dir := filepath.Join(filepath.Dir(j.out), unfinished)
	if err := os.RemoveAll(dir); err != nil { // of a build that was killed
		return err
	}
	defer os.RemoveAll(dir)
	built := filepath.Join(dir, filepath.Base(j.out)) // the go command makes the folder
	if err := j.run(ctx, built); err != nil {
		return err
	}
	return os.Rename(built, j.out)
}

func (j buildJob) run(ctx context.Context, out string) error {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-buildvcs=false", "-o", out}, j.args, []string{j.pkg})...)
	cmd.Dir = j.module
	// Without variables that change the build: cross-compilation, workspaces and flags such as
	// -mod=vendor.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GOOS", "GOARCH", "GOFLAGS", "GOWORK", "PWD"}, name)
	})
	cmd.Env = append(cmd.Env, "GOWORK=off", "PWD="+j.module)
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

// lockFolder makes a folder, locks it exclusively, and returns the function that unlocks it. The
// end of the process unlocks it too. waiting is called once if another process holds the lock.
func lockFolder(ctx context.Context, dir string, waiting func()) (func(), error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockRetry)
	defer ticker.Stop()
	for waited := false; ; waited = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if !waited {
			waiting()
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for the process that holds %s: %w", f.Name(), ctx.Err())
		case <-ticker.C:
		}
	}
}
