// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// needs skips a test that the machine cannot run.
func needs(t *testing.T, tools ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root for loop devices and mounts")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
}

func run(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// sparse makes a file of a size such as "300M".
func sparse(t *testing.T, size string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "disk")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run(t, "truncate", "-s", size, f.Name())
	return f.Name()
}

func attach(t *testing.T, file string) string {
	t.Helper()
	device, _ := attached(t, file)
	return device
}

// attached attaches a loop device, which detach detaches before the end of the test, and once: another
// test may have a device of that name afterwards.
func attached(t *testing.T, file string) (device string, detach func()) {
	t.Helper()
	device = run(t, "losetup", "-f", "--show", file)
	detach = sync.OnceFunc(func() {
		if out, err := exec.Command("losetup", "-d", device).CombinedOutput(); err != nil {
			t.Errorf("losetup: %v: %s", err, out)
		}
	})
	t.Cleanup(detach)
	return device, detach
}

// mountAt mounts a source in a new folder and returns the folder.
func mountAt(t *testing.T, args ...string) string {
	t.Helper()
	// Not t.TempDir, which would remove the content of a mount that is still there.
	point, err := os.MkdirTemp("", "identity") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(point) })
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	run(t, append(append([]string{"mount"}, args...), point)...)
	return point
}

func mountOf(t *testing.T, point string) *mounts.Mount {
	t.Helper()
	table, err := mounts.Read("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	m, ok := table.At(point)
	if !ok {
		t.Fatalf("nothing is mounted at %s", point)
	}
	return m
}

// here is the machine that tests run on.
var here = Host{Sys: "/sys", Machine: "m1"}

func identityOfMount(t *testing.T, point string) disk.Identity {
	t.Helper()
	id, err := here.OfMount(mountOf(t, point), point)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// numberOf returns "<major>:<minor>" of a device's node.
func numberOf(t *testing.T, device string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		t.Fatal(err)
	}
	return sysfs.Number(st.Rdev)
}
