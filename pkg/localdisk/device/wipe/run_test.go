// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package wipe

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestMethods(t *testing.T) {
	methods := [][]string{{"zero"}, {"dd-zero"}, {"dd-zero", "2"}, {"shred", "1"}}
	disks := map[string]struct {
		size    int64
		options []string
	}{
		"one sector":                         {size: 512},
		"less than the superblocks take":     {size: 9 * mib},
		"an odd number of sectors":           {size: 9*mib + 3*512},
		"sectors of 4 KiB, an odd number":    {size: 9*mib + 5*4096, options: []string{"--sector-size", "4096"}},
		"part of a sector at the end":        {size: 2*4096 + 3*512, options: []string{"--sector-size", "4096"}},
		"more than is zeroed in one request": {size: offloadChunk + 512},
	}
	for name, s := range disks {
		t.Run(name, func(t *testing.T) {
			for _, m := range methods {
				dev := loop(t, dirty(t, s.size), s.options...)
				var last disk.Progress
				err := Run(t.Context(), target(t, dev, disk.Block, m...), func(p disk.Progress) error {
					if p.Done > p.Total || p.Method != m[0] {
						t.Errorf("%v: progress %+v", m, p)
					}
					last = p
					return nil
				})
				if err != nil {
					t.Errorf("%v: %v", m, err)
				}
				if last.Done != last.Total || last.Total == 0 {
					t.Errorf("%v: last progress %+v", m, last)
				}
				if at := firstSet(bytesOf(t, dev)); at >= 0 {
					t.Errorf("%v: byte %d is left", m, at)
				}
			}
		})
	}
}

func TestZeroFallsBack(t *testing.T) {
	cannot := func(*device, stretch) error { return unix.EOPNOTSUPP }
	lies := func(*device, stretch) error { return nil }
	halfway := func(d *device, s stretch) error {
		if s.from > 0 {
			return unix.EIO
		}
		return writeZeros(d, s)
	}
	tests := map[string]struct {
		ways []zeroer
		step string
		want disk.Reason
	}{
		"by punching holes alone":                    {ways: []zeroer{punchHole}},
		"by the kernel alone":                        {ways: []zeroer{zeroOut}},
		"by writing alone":                           {ways: []zeroer{writeZeros}},
		"the device cannot punch holes":              {ways: []zeroer{cannot, zeroOut, writeZeros}},
		"the device cannot do anything":              {ways: []zeroer{cannot, cannot, writeZeros}},
		"the device stops in the middle":             {ways: []zeroer{halfway, writeZeros}},
		"the device reports success without zeroing": {ways: []zeroer{lies, lies, writeZeros}},
		"the same, after a step":                     {ways: []zeroer{lies, writeZeros}, step: "zero 1:67108864/68157440"},
		"the device does not keep what is written":   {ways: []zeroer{lies}, want: disk.CleanFailed},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			dev := loop(t, dirty(t, offloadChunk+mib))
			r := &run{Target: target(t, dev, disk.Block, "zero")}
			r.Step = s.step
			d, err := r.open()
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			err = r.zeroBy(t.Context(), d, s.ways)
			if got := reason(err); got != s.want || (err != nil && s.want == "") {
				t.Fatalf("error %v, want %q", err, s.want)
			}
			if at := firstSet(bytesOf(t, dev)); (at >= 0) != (s.want != "") {
				t.Errorf("byte %d is left", at)
			}
		})
	}
}

func reason(err error) disk.Reason {
	if p, ok := errors.AsType[*disk.Problem](err); ok {
		return p.Reason
	}
	return ""
}

func TestShredWritesRandomBytesFirst(t *testing.T) {
	const size = 8*mib + 512
	dev := loop(t, dirty(t, size))
	tgt := target(t, dev, disk.Block, "shred", "2")
	passes := map[string]bool{}
	err := Run(t.Context(), tgt, func(p disk.Progress) error {
		if !strings.HasPrefix(p.Step, "shred/2 1:") && !strings.HasPrefix(p.Step, "shred/2 2:") {
			return nil
		}
		got := bytesOf(t, dev)
		for at := range int(size / 512) {
			at *= 512
			if firstSet(got[at:at+512]) < 0 || got[at] == 0xa5 && got[at+1] == 0xa5 && got[at+2] == 0xa5 && got[at+3] == 0xa5 {
				t.Fatalf("after %s: sector at %d is not random", p.Step, at)
			}
		}
		passes[sum(t, dev)] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(passes) != 2 {
		t.Errorf("%d different random passes, want 2", len(passes))
	}
}

func TestInterruptedCleanResumes(t *testing.T) {
	const size = 20*mib + 512
	dev := loop(t, dirty(t, size))
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the provisioner stops")
	r := &run{Target: target(t, dev, disk.Filesystem, "dd-zero", "2"), progress: func(p disk.Progress) error {
		if strings.HasPrefix(p.Step, "dd-zero/2 2:8388608/") {
			cancel(stopped)
		}
		return nil
	}}
	if err := r.run(ctx); !errors.Is(err, stopped) {
		t.Fatalf("error %v, want %v", err, stopped)
	}
	// What precedes the step is not written again, and all after it is.
	for _, at := range []int64{9 * mib, 4 * mib} {
		write(t, dev, at)
	}
	again := target(t, dev, disk.Filesystem, "dd-zero", "2")
	again.Step = point{2, 8 * mib}.step(again.Method, size)
	var steps []string
	if err := Run(t.Context(), again, func(p disk.Progress) error { steps = append(steps, p.Step); return nil }); err != nil {
		t.Fatal(err)
	}
	got := bytesOf(t, dev)
	if at := firstSet(got); at != int(4*mib) {
		t.Errorf("first byte that is set is %d, want %d: before the step", at, 4*mib)
	}
	if at := firstSet(got[4*mib+512:]); at >= 0 {
		t.Errorf("byte %d after the step is left", int(4*mib)+512+at)
	}
	if want := []string{point{2, size}.step(again.Method, size), finishedStep}; !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
}

// write sets a sector of a device.
func write(t *testing.T, dev string, at int64) {
	t.Helper()
	d, err := openDevice(dev, unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for i := range d.buf[:512] {
		d.buf[i] = 0xa5
	}
	if err := d.write(at, 512); err != nil {
		t.Fatal(err)
	}
}

// endsAfter is a context that ends after so many calls of Err.
type endsAfter struct {
	context.Context
	left *int
}

func (p endsAfter) Err() error {
	if *p.left--; *p.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestCancelledCleanReportsItsStep(t *testing.T) {
	dev := loop(t, dirty(t, 20*mib))
	asked := 3 // at the start, and before each of two chunks
	var steps []string
	r := &run{Target: target(t, dev, disk.Block, "dd-zero"), every: time.Hour, progress: func(p disk.Progress) error {
		steps = append(steps, p.Step)
		return nil
	}}
	if err := r.run(endsAfter{context.Background(), &asked}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff([]string{"dd-zero/1 1:8388608/20971520"}, steps); diff != "" {
		t.Errorf("steps (-want +got)\n%s", diff)
	}
}

func TestUnrecordedStepEndsTheClean(t *testing.T) {
	full := errors.New("disk full")
	dev := loop(t, dirty(t, 20*mib))
	r := &run{Target: target(t, dev, disk.Block, "dd-zero"), progress: func(disk.Progress) error { return full }}
	if err := r.run(t.Context()); !errors.Is(err, full) {
		t.Fatalf("error %v, want %v", err, full)
	}
	if got := bytesOf(t, dev); firstSet(got[4*mib:]) != 0 {
		t.Error("continued without its step")
	}
}

func TestRejectedTargetsAreUnchanged(t *testing.T) {
	other := errors.New("another disk")
	tests := map[string]struct {
		options []string
		change  func(*Target)
		holds   func(t *testing.T, dev string)
		want    disk.Reason
		is      error
	}{
		"to another disk":                 {change: func(tg *Target) { tg.Verify = func(*os.File) error { return other } }, is: other},
		"to a disk that was not examined": {change: func(tg *Target) { tg.Verify = nil }},
		"to a disk that grew":             {change: func(tg *Target) { tg.Bytes -= 512 }, want: disk.Grown},
		"to a disk that shrank":           {change: func(tg *Target) { tg.Bytes += 512 }, want: disk.Grown},
		"by a method that is unknown":     {change: func(tg *Target) { tg.Method = Method{} }},
		"to a disk that is read-only":     {options: []string{"--read-only"}, want: disk.ReadOnly},
		"to a disk that a process holds": {want: disk.VolumeInUse, holds: func(t *testing.T, dev string) {
			d, err := openDevice(dev, unix.O_RDWR|unix.O_EXCL)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(d.close)
		}},
	}
	for name, s := range tests {
		t.Run(name, func(t *testing.T) {
			for _, method := range [][]string{{"fs-reset"}, {"zero"}, {"blkdiscard"}, {"dd-zero"}, {"shred"}, {"/bin/false"}} {
				dev := loop(t, dirty(t, 2*mib), s.options...)
				before := sum(t, dev)
				tg := target(t, dev, disk.Block, method...)
				if s.change != nil {
					s.change(&tg)
				}
				if s.holds != nil {
					s.holds(t, dev)
				}
				err := Run(t.Context(), tg, nil)
				if err == nil || reason(err) != s.want || s.is != nil && !errors.Is(err, s.is) {
					t.Errorf("%v: error %v, want %q %v", method, err, s.want, s.is)
				}
				if sum(t, dev) != before {
					t.Errorf("%v: the device was changed", method)
				}
			}
		})
	}
	t.Run("when the context has ended", func(t *testing.T) {
		dev := loop(t, dirty(t, 2*mib))
		before := sum(t, dev)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Run(ctx, target(t, dev, disk.Block, "zero"), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if sum(t, dev) != before {
			t.Error("the device was changed")
		}
	})
}

func TestMountedDeviceIsInUse(t *testing.T) {
	need(t, "mkfs.ext4")
	dev := loop(t, blank(t, 16*mib))
	sh(t, "mkfs.ext4", "-q", dev)
	point := t.TempDir()
	if err := unix.Mount(dev, point, "ext4", 0, ""); err != nil {
		t.Skipf("mount ext4: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, 0) })
	if err := Run(t.Context(), target(t, dev, disk.Filesystem), nil); reason(err) != disk.VolumeInUse {
		t.Errorf("error %v", err)
	}
	if content, what, err := Inspect(t.Context(), dev, disk.Filesystem); content != disk.ContentSome || err != nil {
		t.Errorf("Inspect returns %q, %q, %v", content, what, err)
	}
}

func TestOnlyBlockDevicesAreOpened(t *testing.T) {
	need(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, _ := fifo(t)
	link := filepath.Join(folder, "link")
	if err := os.Symlink(loop(t, blank(t, mib)), link); err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{"a file": file, "a folder": folder, "a pipe": pipe, "a character device": "/dev/null", "a symlink to a device": link}
	for name, path := range tests {
		t.Run(name, func(t *testing.T) {
			err := Run(t.Context(), Target{Device: path, Bytes: 4, Mode: disk.Block, Method: Method{Name: Zero}, Verify: func(*os.File) error {
				t.Error("was opened")
				return nil
			}}, nil)
			if reason(err) != disk.SpecialFile {
				t.Errorf("Run: error %v", err)
			}
			if _, _, err := Inspect(t.Context(), path, disk.Block); reason(err) != disk.SpecialFile {
				t.Errorf("Inspect: error %v", err)
			}
		})
	}
	if _, _, err := Inspect(t.Context(), filepath.Join(folder, "none"), disk.Block); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing at the path: error %v", err)
	}
}
