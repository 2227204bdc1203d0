// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package diskstress_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// tenant is a claim in its volume.
type tenant struct {
	volume *corev1.PersistentVolume
	claim  types.UID
	// kubelet is the folder whose existence shows that kubelet has the volume mounted.
	kubelet string
	// until is how many volumes have been recycled when kubelet unmounts it.
	until int
}

// moveIn checks that the volume of every newly bound claim is clean, and uses it.
func (s *stress) moveIn() {
	s.t.Helper()
	for _, volume := range s.volumes() {
		ref := volume.Spec.ClaimRef
		if volume.Status.Phase != corev1.VolumeBound || ref == nil || s.moved[volume.UID] || s.claims[ref.Name] != ref.UID {
			continue
		}
		s.moved[volume.UID] = true
		s.checkClean(volume, "given to "+ref.Name)
		s.checked++
		t := &tenant{volume: volume, claim: ref.UID}
		t.kubelet = s.kubeletFolder(t)
		if err := os.MkdirAll(t.kubelet, 0o755); err != nil {
			s.t.Fatal(err)
		}
		s.write(t)
		s.tenants[volume.UID] = t
	}
}

func (s *stress) kubeletFolder(t *tenant) string {
	kind := "volumes"
	if *t.volume.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		kind = "volumeDevices"
	}
	n := s.nodes[t.volume.Annotations[wellknown.NodeNameAnnotation]]
	return n.Path("kubelet/pods", string(t.claim), kind, "kubernetes.io~local-volume", t.volume.Name)
}

// moveOut ends a claim's use of its volume. Usually kubelet has unmounted a volume
// before the pod is deleted; sometimes it has not.
func (s *stress) moveOut(claim types.UID) {
	s.t.Helper()
	for uid, t := range s.tenants {
		if t.claim != claim {
			continue
		}
		delete(s.tenants, uid)
		if s.random.IntN(20) == 0 {
			t.until = s.history.held(t.volume) + whileHeld
			s.leaving = append(s.leaving, t)
			continue
		}
		s.unmount(t)
	}
}

// whileHeld is the minimum number of volumes recycled while kubelet uses one, so that
// that one could have been cleaned too.
var whileHeld = volumes / 4

// leave makes kubelet unmount the volumes that it still uses, once enough others were
// recycled, or all. Until then they must not be cleaned.
func (s *stress) leave(all bool) {
	s.t.Helper()
	for len(s.leaving) > 0 && (all || s.history.recycled() >= s.leaving[0].until) {
		t := s.leaving[0]
		s.leaving = s.leaving[1:]
		if !s.holds(t) {
			s.t.Errorf("volume %s (%s) was cleaned while kubelet had it mounted", t.volume.Name, localpv.PathOf(t.volume))
		}
		s.history.leave(t.volume)
		s.unmount(t)
	}
}

func (s *stress) unmount(t *tenant) {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Dir(filepath.Dir(filepath.Dir(t.kubelet)))); err != nil {
		s.t.Fatal(err)
	}
}

// write writes to a volume as tenants do.
func (s *stress) write(t *tenant) {
	s.t.Helper()
	path := localpv.PathOf(t.volume)
	if *t.volume.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		if err := overwrite(path, t.pattern()); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	data := filepath.Join(path, "some", "where", "data")
	err := errors.Join(
		os.MkdirAll(filepath.Dir(data), 0o700),
		os.WriteFile(data, t.pattern(), 0o400),
		os.Symlink(s.canary, filepath.Join(path, "out")),
		os.Link(data, filepath.Join(path, ".again")),
		os.Lchown(path, 1000, 2000),
		os.Chmod(path, 0o777|fs.ModeSetgid),
	)
	if s.random.IntN(4) == 0 {
		err = errors.Join(err, freeze(data))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// holds reports whether a volume still has its tenant's data.
func (s *stress) holds(t *tenant) bool {
	s.t.Helper()
	path := localpv.PathOf(t.volume)
	if *t.volume.Spec.VolumeMode != corev1.PersistentVolumeBlock {
		path = filepath.Join(path, "some", "where", "data")
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return bytes.HasPrefix(data, t.pattern())
}

// pattern is a tenant's data: 64 KiB that differ from every other tenant's.
func (t *tenant) pattern() []byte {
	return bytes.Repeat([]byte(t.claim), 64<<10/len(t.claim))
}

// overwrite writes the pattern to both ends of a device.
func overwrite(path string, pattern []byte) error {
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	size, err := device.Seek(0, 2)
	if err == nil {
		_, err = device.WriteAt(pattern, 0)
	}
	if err == nil {
		_, err = device.WriteAt(pattern, size-int64(len(pattern)))
	}
	return errors.Join(err, device.Sync(), device.Close())
}

// immutable is FS_IMMUTABLE_FL of linux/fs.h.
const immutable = 0x10

// freeze makes a file immutable.
func freeze(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	flags, err := unix.IoctlGetInt(int(file.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flags|immutable)
	}
	return errors.Join(err, file.Close())
}

// checkClean checks that a volume is as new.
func (s *stress) checkClean(volume *corev1.PersistentVolume, when string) {
	s.t.Helper()
	path := localpv.PathOf(volume)
	if *volume.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		data, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		if at := slices.IndexFunc(data, func(b byte) bool { return b != 0 }); at >= 0 {
			s.t.Errorf("%s: volume %s (%s) is not zero at %d: %q", when, volume.Name, path, at, data[at:at+min(80, len(data)-at)])
		}
		return
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() != "lost+found" {
			s.t.Errorf("%s: volume %s (%s) holds %s", when, volume.Name, path, entry.Name())
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		s.t.Fatal(err)
	}
	is, was := info.Sys().(*syscall.Stat_t), s.roots[path].Sys().(*syscall.Stat_t)
	if is.Mode != was.Mode || is.Uid != was.Uid || is.Gid != was.Gid {
		s.t.Errorf("%s: the root of volume %s (%s) is %o of %d:%d, and was %o of %d:%d at first", when, volume.Name, path, is.Mode, is.Uid, is.Gid, was.Mode, was.Uid, was.Gid)
	}
}
