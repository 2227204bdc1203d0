// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stagingdir reads and removes the directories of a node that are mounted at /pav in staging
// pods. Each attempt to stage a volume has a directory of its own (pavdir.AttemptPath), which kubelet
// creates with the pod. The containers are not trusted: see package pavdir.
package stagingdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/device/files"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/pav/pavdir"
	"stowage.dev/stowage/pkg/pav/report"
)

// Config names directories of the node.
type Config struct {
	Root string // pavdir.StagingRoot
	Proc string // /proc
	Sys  string // /sys
	Dev  string // /dev
}

// Dirs are the directories of all stagings of the node. Safe for concurrent use; the caller keeps
// operations on one volume from running at the same time.
type Dirs struct{ Config }

// New returns Dirs. It creates the root if that does not exist.
func New(config Config) (*Dirs, error) {
	if err := os.MkdirAll(config.Root, 0o700); err != nil {
		return nil, fmt.Errorf("create the staging directory: %w", err)
	}
	return &Dirs{config}, nil
}

// Attempt identifies the directory of an attempt.
type Attempt struct {
	// Volume is what stowage.PavVolumeKey returns, UID that of the PavStaging.
	Volume, UID string
	Number      int64
}

var (
	volumeName = regexp.MustCompile(`^[0-9a-f]{32}$`)
	uidName    = regexp.MustCompile(`^[0-9a-zA-Z-]{1,64}$`)
)

// path returns the directory of all attempts of a staging.
func (d *Dirs) path(volume, uid string) (string, error) {
	if !volumeName.MatchString(volume) || !uidName.MatchString(uid) {
		return "", fmt.Errorf("no volume %q with the staging %q", volume, uid)
	}
	return filepath.Join(d.Root, volume, uid), nil
}

// Volume is an open /pav/volume. Its methods are safe for concurrent use.
type Volume struct {
	file     *os.File
	report   report.Volume
	sequence string
}

// Open opens /pav/volume of an attempt, without access to its content. It waits for the server of a
// file system that is mounted there.
func (d *Dirs) Open(a Attempt) (*Volume, error) {
	if _, err := d.path(a.Volume, a.UID); err != nil {
		return nil, err
	}
	dir, err := pavdir.Open(pavdir.AttemptPath(d.Root, a.Volume, a.UID, a.Number))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	file, found, err := dir.OpenVolume()
	if err != nil {
		return nil, err
	}
	if file == nil {
		return nil, errors.New("/pav/volume does not exist")
	}
	var alive unix.Statfs_t // unlike what Stat returns, this is never from a cache
	if err := unix.Fstatfs(int(file.Fd()), &alive); err != nil {
		return nil, errors.Join(fmt.Errorf("/pav/volume: %w", err), file.Close())
	}
	v := &Volume{file: file, report: found}
	if found.Device != "" {
		v.sequence = d.sequence(found.Device)
	}
	return v, nil
}

// sequence returns the sequence number of a block device; empty if the kernel has none.
func (d *Dirs) sequence(device string) string {
	return d.text(filepath.Join(d.Sys, "dev/block", device, "diskseq"))
}

// Close closes the volume.
func (v *Volume) Close() error { return v.file.Close() }

// File is open for its path only.
func (v *Volume) File() *os.File { return v.file }

// Report describes the volume.
func (v *Volume) Report() report.Volume { return v.report }

// Staged identifies the volume.
func (v *Volume) Staged(attempt int64) stowage.StagedVolume {
	return stowage.StagedVolume{
		Attempt: attempt, FileSystem: v.report.FileSystem, Inode: strconv.FormatUint(v.report.Inode, 10),
		Device: v.report.Device, DiskSequence: v.sequence,
	}
}

// Allowed returns an error if a block device is none of those that patterns allow (allowedDevices of
// a PavStaging).
func (d *Dirs) Allowed(v *Volume, patterns []string) error {
	if v.report.Kind != report.BlockDevice {
		return nil
	}
	for _, pattern := range patterns {
		if pattern == "*" {
			return nil
		}
		relative, err := filepath.Rel("/dev", pattern)
		if err != nil || !filepath.IsLocal(relative) {
			continue
		}
		matches, err := filepath.Glob(filepath.Join(d.Dev, relative))
		if err != nil {
			return fmt.Errorf("pattern %q of allowed devices: %w", pattern, err)
		}
		for _, match := range matches {
			var st unix.Stat_t
			if unix.Stat(match, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && pavdir.Number(st.Rdev) == v.report.Device {
				return nil
			}
		}
	}
	return fmt.Errorf("/pav/volume: is block device %s, which deviceAllowList of the provisioner does not have: a staging pod may offer others if it is privileged and in the provisioner namespace", v.report.Device)
}

// Unheld returns an error if a block device is in use by the kernel: mounted, or part of another
// device.
func (d *Dirs) Unheld(v *Volume) error {
	if v.report.Kind != report.BlockDevice {
		return nil
	}
	device, err := os.OpenFile(fmt.Sprintf("%s/self/fd/%d", d.Proc, v.file.Fd()), os.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("/pav/volume: block device %s is in use: it is mounted, or part of another device", v.report.Device)
	case err != nil:
		return fmt.Errorf("/pav/volume: open block device %s: %w", v.report.Device, errno(err))
	}
	return device.Close()
}

// errno is the reason of an error without the path of the descriptor.
func errno(err error) error {
	if pathError, ok := errors.AsType[*os.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// Volumes returns the volumes of which directories exist.
func (d *Dirs) Volumes() ([]string, error) { return names(d.Root, volumeName) }

// UIDs returns the stagings of a volume of which directories exist.
func (d *Dirs) UIDs(volume string) ([]string, error) {
	if !volumeName.MatchString(volume) {
		return nil, fmt.Errorf("no volume %q", volume)
	}
	return names(filepath.Join(d.Root, volume), uidName)
}

// names returns the entries of a directory that match; none if it does not exist.
func names(directory string, matches *regexp.Regexp) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list staging directories: %w", err)
	}
	var found []string
	for _, entry := range entries {
		if entry.IsDir() && matches.MatchString(entry.Name()) {
			found = append(found, entry.Name())
		}
	}
	return found, nil
}

// Remove removes the directories of a staging, and nothing of other file systems. It fails with *Left
// if anything is mounted there.
func (d *Dirs) Remove(ctx context.Context, volume, uid string) error {
	path, err := d.path(volume, uid)
	if err != nil {
		return err
	}
	if err := d.Clear(volume, uid, math.MaxInt64, nil); err != nil {
		return err
	}
	// A container that still runs may mount something meanwhile.
	root, err := files.Open(path, nil)
	if err == nil {
		err = root.Clean(ctx, func(disk.Progress) error { return nil })
	}
	if err == nil {
		err = unix.Rmdir(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the directories of staging %s: %w", uid, err)
	}
	if err := unix.Rmdir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("remove the directory of volume %s: %w", volume, err)
	}
	return nil
}

// ReadOnly returns an error if a block device can be written to: a mount does not protect it.
func (d *Dirs) ReadOnly(v *Volume) error {
	if v.report.Kind != report.BlockDevice {
		return nil
	}
	if d.text(filepath.Join(d.Sys, "dev/block", v.report.Device, "ro")) != "1" {
		return fmt.Errorf("/pav/volume: block device %s can be written to, but the volume is to be read-only: have the staging pod make it read-only (blockdev --setro)", v.report.Device)
	}
	return nil
}
