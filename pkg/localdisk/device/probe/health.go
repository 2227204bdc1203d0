// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// fileSystemHealth rejects a mounted file system that mountinfo or sysfs show to be failing.
// Whether it answers is observed when it is accessed.
func (e *entry) fileSystemHealth(m *mounts.Mount) {
	e.fault(m)
	if m.Major == 0 {
		return // on no device, or on several
	}
	number := fmt.Sprintf("%d:%d", m.Major, m.Minor)
	switch ro, err := sysfs.Device(filepath.Join(e.cfg.Sys, "dev/block", number)).Int("ro"); {
	case err != nil && gone(err):
		e.reject(disk.IOError, "the device %s of the file system at %s is gone", number, e.fact.HostPath)
	case err != nil:
		e.fail(err)
	case ro != 0:
		e.reject(disk.DeviceReadOnly, "the device %s of the file system at %s rejects writes: unless it was set read-only, it is failing", number, e.fact.HostPath)
	}
}

// deviceHealth rejects a device whose mounted file system is failing, such as one that kubelet
// has mounted for a pod. The device itself is not read.
func (e *entry) deviceHealth(major, minor uint32) {
	if all := e.view.host.OfDevice(major, minor); len(all) > 0 {
		e.fault(all[0])
	}
	for _, m := range e.view.self.OfDevice(major, minor) {
		if top, ok := e.view.self.At(m.Point); !ok || top != m || !mounts.Supported(m.FSType) {
			continue
		}
		// XFS that was shut down answers with EIO here, and shows nothing in mountinfo.
		if _, err := statx(m.Point, kindAndMount); err != nil && ioError(err) {
			e.reject(disk.IOError, "the file system on %s cannot be examined: %v", e.fact.HostPath, err)
		}
		return
	}
}

// fault rejects a file system to which the kernel has stopped writing.
func (e *entry) fault(m *mounts.Mount) {
	if fault := e.view.host.Fault(m); fault != "" {
		e.reject(disk.FilesystemError, "the %s file system on %s %s: check the disk and the kernel's log, unmount, check and mount it again", m.FSType, e.fact.HostPath, fault)
	}
}

// ioErrors are what the kernel returns for a disk, or a file system on it, that fails.
// Others, such as EACCES, may be due to how this process runs.
var ioErrors = []error{
	unix.EIO, unix.EREMOTEIO, unix.ENXIO, unix.ENODEV, unix.ENOMEDIUM, unix.ENODATA, unix.EILSEQ, unix.ETIMEDOUT, unix.ENOLINK,
	unix.EUCLEAN, unix.EBADMSG, // corrupt metadata, of ext4 and XFS
	unix.ESHUTDOWN, unix.ENOTCONN, // a file system whose server has died
}

func ioError(err error) bool {
	return slices.ContainsFunc(ioErrors, func(target error) bool { return errors.Is(err, target) })
}
