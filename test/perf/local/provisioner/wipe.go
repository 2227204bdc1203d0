// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/source"
)

// wipeBytes is the size of the device that is wiped.
const wipeBytes = 1 << 30

// wipes are the commands, each with the program that writes the same without a provisioner;
// the device is added to its last argument.
var wipes = []struct{ command, alone []string }{
	{[]string{"zero"}, nil},
	{[]string{"dd-zero", "1"}, []string{"dd", "if=/dev/zero", "bs=1M", "oflag=direct", "of="}},
	{[]string{"shred", "1"}, []string{"shred", "--iterations=1", ""}},
}

// Wiping measures the cleaning of a large device, by each method.
func (s *Setup) Wiping(ctx context.Context) (measured figures.Set, err error) {
	for i := range wipes {
		since := len(s.closers)
		line, err := s.wipe(ctx, i)
		if err == nil {
			err = s.closing(since)
		}
		if err != nil {
			return nil, fmt.Errorf("wipe with %s: %w", strings.Join(wipes[i].command, " "), err)
		}
		measured = append(measured, line)
	}
	return measured, nil
}

// wipe has a new provisioner clean a new device that is full, once.
func (s *Setup) wipe(ctx context.Context, i int) (_ *benchfmt.Result, err error) {
	s.Progress("wipe with %s", strings.Join(wipes[i].command, " "))
	m, err := s.newMachine(ctx, fmt.Sprintf("wiping-%d", i))
	if err != nil {
		return nil, err
	}
	defer m.explain(&err)
	m.cleaner = wipes[i].command
	if m.binary, err = s.cold(s.Provisioner, m.path("stowage-provisioner")); err != nil {
		return nil, err
	}
	if m.group, err = newGroup(s.cluster, fmt.Sprintf("stowage-%d-%s", os.Getpid(), m.name)); err != nil {
		return nil, err
	}
	device, err := m.attach(ctx, "large", strconv.Itoa(wipeBytes))
	if err != nil {
		return nil, err
	}
	if err := os.Symlink(device, m.slot(blockClass, "large")); err != nil {
		return nil, err
	}
	if err := m.start(ctx); err != nil {
		return nil, err
	}
	claim, bound, err := s.claim(ctx, m, blockClass)
	if err != nil {
		return nil, err
	}
	alone, err := fill(ctx, device, wipes[i].alone)
	if err != nil {
		return nil, err
	}
	released, next, err := s.release(ctx, claim, bound)
	if err != nil {
		return nil, err
	}
	took := next.since[corev1.VolumeAvailable].Sub(released.since[corev1.VolumeReleased]).Seconds()
	used, err := source.Used(m.provisioner)
	if err != nil {
		return nil, err
	}
	peak, err := m.group.peak()
	return figures.Line("Wipe/method="+strings.Join(wipes[i].command, "_"), 1,
		figures.Value{Value: took, Unit: "sec"}, figures.Value{Value: wipeBytes / took, Unit: "rate-B"}, figures.Value{Value: float64(used.Peak), Unit: "peak-B"},
		figures.Value{Value: figures.Measured(float64(peak)), Unit: "cgroup-B"}, figures.Value{Value: alone, Unit: "command-sec"}), err
}

// cold copies a program, and removes the copy from the page cache: the first process that runs it
// is charged for its pages, as in a container.
func (s *Setup) cold(program, to string) (string, error) {
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
	_, err = command(ctx, "sh", "-c", fmt.Sprintf("head -c %d /dev/urandom | dd of=%s bs=1M iflag=fullblock oflag=direct status=none", wipeBytes, device))
	if err != nil || alone == nil {
		return math.NaN(), err
	}
	args := slices.Clone(alone)
	args[len(args)-1] += device
	if args[0] == "dd" {
		args = append(args, "count="+strconv.Itoa(wipeBytes>>20))
	}
	begin := time.Now()
	if _, err := command(ctx, args[0], args[1:]...); err != nil {
		return 0, err
	}
	if _, err := command(ctx, "sync", device); err != nil {
		return 0, err
	}
	return time.Since(begin).Seconds(), nil
}
