// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "smartctl" {
		fakeSmartctl()
	}
	goleak.VerifyTestMain(m)
}

// lab is a disk with a file system, most often on a loop device.
type lab struct {
	t             *testing.T
	folder        string
	image, device string
	point         string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root for loop devices and mounts")
	}
	return &lab{t: t, folder: t.TempDir()}
}

func (l *lab) run(command ...string) string {
	l.t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		l.t.Skipf("needs %s", command[0])
	}
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// attach makes a sparse file in a folder, and attaches it to a loop device.
func (l *lab) attach(folder, size string) {
	l.t.Helper()
	l.image = filepath.Join(folder, "image")
	l.run("truncate", "-s", size, l.image)
	l.device = l.run("losetup", "-f", "--show", l.image)
	l.t.Cleanup(func() { l.run("losetup", "-d", l.device) })
}

// mount mounts something at a folder.
func (l *lab) mount(name string, args ...string) string {
	l.t.Helper()
	point := filepath.Join(l.folder, name)
	if err := os.MkdirAll(point, 0o755); err != nil {
		l.t.Fatal(err)
	}
	l.run(append(append([]string{"mount"}, args...), point)...)
	l.t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	return point
}

// format makes a file system on the lab's device, and mounts it.
func (l *lab) format(fsType string, options ...string) {
	l.t.Helper()
	quiet := "-q"
	l.run("mkfs."+fsType, quiet, l.device)
	l.point = l.mount("point", append(options, l.device)...)
}

// number returns the number of a device.
func (l *lab) number(device string) string {
	l.t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		l.t.Fatal(err)
	}
	return sysfs.Number(st.Rdev)
}

// target is the lab's disk, as a device or as a file system.
func (l *lab) target() disk.HealthTarget {
	l.t.Helper()
	device := "dev:" + l.number(l.device)
	places := []string{device}
	table, err := mounts.Read(mounts.Self)
	if err != nil {
		l.t.Fatal(err)
	}
	if m, ok := table.At(l.point); ok && l.point != "" {
		places = []string{m.Place(l.point), device}
	}
	return disk.HealthTarget{Identity: "disk", Places: places, Probe: true}
}

// newReader returns a reader that has read the target once.
func newReader(t *testing.T, target disk.HealthTarget) *Reader {
	t.Helper()
	r := New("/sys", "/dev", mounts.Self)
	if first := readAll(t, r, target); len(first) > 1 || len(first) == 1 && first[0].Value > 0 {
		t.Fatalf("at first: %v", first)
	}
	return r
}

// readAll returns the signs of a target in two passes, the second after the read of the disk that
// the first began. The kernel may log an error of that read in either pass: each reason and counter
// is returned once.
func readAll(t *testing.T, r *Reader, target disk.HealthTarget) []disk.Sign {
	t.Helper()
	var all []disk.Sign
	for range 2 {
		signs, err := r.ReadHealth([]disk.HealthTarget{target}, longTime)
		if err != nil {
			t.Fatal(err)
		}
		settle(r)
		for _, sign := range signs[target.Identity] {
			known := func(s disk.Sign) bool { return s.Reason == sign.Reason && s.Counter == sign.Counter }
			if i := slices.IndexFunc(all, known); i >= 0 {
				all[i] = sign // the kernel may raise a counter after the first pass
			} else {
				all = append(all, sign)
			}
		}
	}
	return all
}

// settle waits until the reads in progress have ended.
func settle(r *Reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, read := range r.reads {
		read.result <- <-read.result
	}
}
