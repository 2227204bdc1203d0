// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/parts"
	"stowage.dev/stowage/test/perf/source"
)

// wipeBytes is the size of the device that is wiped.
const wipeBytes = 1 << 30

// wipes are the commands, each with the program that writes the same without a provisioner;
// the device is added to its last argument.
var wipes = []struct{ command, alone []string }{
	{[]string{"zero"}, nil},
	{[]string{"dd-zero", "1"}, []string{"dd", "if=/dev/zero", "bs=1M", "oflag=direct", "status=none", "of="}},
	{[]string{"shred", "1"}, []string{"shred", "--iterations=1", ""}},
}

// wiping measures the cleaning of a large device, by each method.
func (b *bench) wiping(ctx context.Context, _ *parts.Run) (measured figures.Set, err error) {
	for i, w := range wipes {
		method := strings.Join(w.command, "_")
		parts.Progress("wipe with %s", method)
		err := b.with(ctx, func(n *node) error {
			values, err := n.wipe(ctx, i)
			measured = append(measured, figures.Line("Wipe/method="+method, 1, values...))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("wipe with %s: %w", method, err)
		}
	}
	return measured, nil
}

// wipe has the provisioner clean a device that is full, once.
func (n *node) wipe(ctx context.Context, i int) (_ []figures.Value, err error) {
	n.cleaner = wipes[i].command
	if n.binary, err = cold(n.binary, n.path("stowage-provisioner")); err != nil {
		return nil, err
	}
	if n.group, err = newGroup(n.cluster, fmt.Sprintf("stowage-%d-wiping-%d", os.Getpid(), i)); err != nil {
		return nil, err
	}
	device, err := n.attach(ctx, "large", strconv.Itoa(wipeBytes))
	if err != nil {
		return nil, err
	}
	if err := os.Symlink(device, n.path(blockClass, "large")); err != nil {
		return nil, err
	}
	if err := n.start(ctx); err != nil {
		return nil, err
	}
	bound, err := n.claim(ctx, blockClass)
	if err != nil {
		return nil, err
	}
	alone, err := fill(ctx, device, wipes[i].alone)
	if err != nil {
		return nil, err
	}
	took, err := n.release(ctx, bound)
	if err != nil {
		return nil, err
	}
	used, err := source.Used(n.provisioner)
	if err != nil {
		return nil, err
	}
	peak, err := n.group.peak()
	return []figures.Value{
		{Value: took, Unit: "sec"}, {Value: wipeBytes / took, Unit: "rate-B"}, {Value: float64(used.Peak), Unit: "peak-B"},
		{Value: figures.Measured(float64(peak)), Unit: "cgroup-B"}, {Value: alone, Unit: "command-sec"},
	}, err
}

// cold copies a program, and removes the copy from the page cache: the first process that runs it
// is charged for its pages, as in a container.
func cold(program, to string) (string, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED), file.Close())
	return to, err
}

// fill writes all of a device, then times the program that writes the same as the provisioner; NaN without one.
func fill(ctx context.Context, device string, alone []string) (seconds float64, err error) {
	_, err = source.Output(ctx, "sh", "-c", fmt.Sprintf("head -c %d /dev/urandom | dd of=%s bs=1M iflag=fullblock oflag=direct status=none", wipeBytes, device))
	if err != nil || alone == nil {
		return math.NaN(), err
	}
	args := slices.Clone(alone)
	args[len(args)-1] += device
	if args[0] == "dd" {
		args = append(args, "count="+strconv.Itoa(wipeBytes>>20))
	}
	begin := time.Now()
	if _, err := source.Output(ctx, args[0], args[1:]...); err != nil {
		return 0, err
	}
	if _, err := source.Output(ctx, "sync", device); err != nil {
		return 0, err
	}
	return time.Since(begin).Seconds(), nil
}

// group is a cgroup that counts memory. A nil one is none: it counts nothing.
type group struct {
	folder string
	file   string // that has the peak
}

// newGroup makes a cgroup in the hierarchy that counts memory, of version 2 or 1, until the
// cluster ends. It is nil where none is usable.
func newGroup(c *cluster.Cluster, name string) (*group, error) {
	const top = "/sys/fs/cgroup"
	g := &group{folder: filepath.Join(top, "memory", name), file: "memory.max_usage_in_bytes"}
	if _, err := os.Stat(filepath.Join(top, "cgroup.controllers")); err == nil {
		g = &group{folder: filepath.Join(top, name), file: "memory.peak"}
		// Groups below the root count only with the controllers that the root delegates.
		_ = os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte("+memory"), 0o600)
	}
	err := os.Mkdir(g.folder, 0o755)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.EROFS):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	c.Prune(g.folder)
	return g, nil
}

// wrap is a command that runs another one in the group from its first page on.
func (g *group) wrap(binary string, args []string) (string, []string) {
	if g == nil {
		return binary, args
	}
	return "/bin/sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, g.folder, binary}, args...)
}

// peak is the most memory that the group was charged for, in bytes; 0 without a counter.
func (g *group) peak() (int64, error) {
	if g == nil {
		return 0, nil
	}
	text, err := os.ReadFile(filepath.Join(g.folder, g.file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
