// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pavdir reads what the containers of a PaV helper pod leave in /pav. The containers are not
// trusted: links are resolved inside of the directory, as the containers resolve them, only
// regular files are opened, of which a bounded part is read, and devices are never opened.
package pavdir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/pav/report"
)

// Path of the directory in helper pods, in errors and reports whatever the directory is called.
const Path = "/pav"

// StagingRoot is the directory of a node that has the directories of all staging attempts.
const StagingRoot = "/var/lib/stowage/pav"

// AttemptPath returns the directory of a node that is mounted at /pav in the staging pod of an attempt.
// volume is the first part of the name of the PavStaging, of 32 digits, and uid its UID, so that no
// other attempt ever has it.
func AttemptPath(root, volume, uid string, attempt int64) string {
	return filepath.Join(root, volume, uid, strconv.FormatInt(attempt, 10), "pav")
}

// sectorBytes is the unit of the sizes in sysfs.
const sectorBytes = 512

// Dir is an open directory. Safe for concurrent use.
type Dir struct{ file *os.File }

// Open opens the directory that is mounted as /pav.
func Open(path string) (*Dir, error) {
	file, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the directory of the helper pod: %w", err)
	}
	return &Dir{file}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.file.Close() }

// Report returns what is in the directory now. What cannot be read is one of the report's problems.
func (d *Dir) Report() report.Report {
	var r report.Report
	// note records a problem, if there is one.
	note := func(err error) {
		if err != nil && !errors.Is(err, unix.ENOENT) {
			r.Problems = append(r.Problems, err.Error())
		}
	}
	field := func(name Name) *string {
		text, whole, err := d.read(name)
		switch {
		case err != nil:
		case !whole:
			err = problem(name, fmt.Errorf("has more than %d bytes", report.MaxBytes))
		case !utf8.ValidString(text):
			err = problem(name, errors.New("is not UTF-8"))
		default:
			return &text
		}
		note(err)
		return nil
	}
	r.Handle, r.Capacity = field(Handle), field(Capacity)
	var err error
	r.Volume, err = d.Volume()
	note(err)
	reschedule, err := d.Exists(Reschedule)
	note(err)
	r.Reschedule = reschedule
	if text, _, err := d.read(Error); err == nil {
		r.Error = text
	} else if !errors.Is(err, unix.ENOENT) {
		r.Error = err.Error()
	}
	return r
}

// Exists reports whether the directory has an entry of that name, of any type. Links are not
// followed.
func (d *Dir) Exists(name Name) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(d.file.Fd()), string(name), &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, problem(name, err)
	}
	return true, nil
}

// Volume returns what /pav/volume is: the zero value if there is no such entry, and an error that
// names it if it is neither a directory nor a block device. It waits for the server of a file
// system that is mounted there.
func (d *Dir) Volume() (report.Volume, error) {
	file, v, err := d.OpenVolume()
	if file != nil {
		_ = file.Close()
	}
	return v, err
}

// OpenVolume is like Volume, and opens /pav/volume without access to its content. The file is nil if
// there is no such entry, and after an error.
func (d *Dir) OpenVolume() (*os.File, report.Volume, error) {
	const name = Volume
	file, err := d.open(name, 0)
	if exists, look := d.Exists(name); errors.Is(err, unix.ENOENT) && look == nil && !exists {
		return nil, report.Volume{}, nil
	}
	if err != nil {
		return nil, report.Volume{}, broken(name, err)
	}
	v, err := VolumeOf(file)
	if err != nil {
		_ = file.Close()
		return nil, report.Volume{}, problem(name, err)
	}
	return file, v, nil
}

// VolumeOf describes an open file as a volume, or fails if it is neither a directory nor a block device.
func VolumeOf(file *os.File) (report.Volume, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return report.Volume{}, err
	}
	v := report.Volume{FileSystem: Number(st.Dev), Inode: st.Ino}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		v.Kind = report.Directory
		return v, nil
	case unix.S_IFBLK:
		v.Kind, v.Device = report.BlockDevice, Number(st.Rdev)
		var err error
		v.Bytes, err = deviceBytes(v.Device)
		return v, err
	default:
		return report.Volume{}, fmt.Errorf("is a %s, must be a directory or a block device", typeOf(st.Mode))
	}
}

// read returns the text of a regular file without newlines at the end, and whether that is all
// of it: at most report.MaxBytes are read. The error wraps ENOENT if there is no such entry.
func (d *Dir) read(name Name) (text string, whole bool, err error) {
	// Text is never on a file system that a container has mounted, whose server may hang.
	handle, err := d.open(name, unix.RESOLVE_NO_XDEV)
	if err != nil {
		if exists, look := d.Exists(name); errors.Is(err, unix.ENOENT) && look == nil && !exists {
			return "", false, err
		}
		return "", false, broken(name, err)
	}
	defer handle.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(handle.Fd()), &st); err != nil {
		return "", false, problem(name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", false, problem(name, fmt.Errorf("is a %s, must be a regular file", typeOf(st.Mode)))
	}
	// Only now that it is known not to be a device or a FIFO, it is opened in earnest.
	file, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(handle.Fd())))
	if err != nil {
		return "", false, problem(name, fmt.Errorf("%w for user %d", errno(err), os.Getuid()))
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, report.MaxBytes+1))
	if err != nil {
		return "", false, problem(name, errno(err))
	}
	whole = len(data) <= report.MaxBytes
	return strings.TrimRight(string(data), "\r\n"), whole, nil
}

// open opens an entry of the directory without access to its content. Links are followed, inside of
// the directory.
func (d *Dir) open(name Name, resolve uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | resolve}
	for {
		fd, err := unix.Openat2(int(d.file.Fd()), string(name), &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), string(name)), nil
		case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN): // EAGAIN: a rename in between
			return nil, err
		}
	}
}

// problem is an error that begins with the path of an entry.
func problem(name Name, err error) error {
	return fmt.Errorf("%s: %w", filepath.Join(Path, string(name)), err)
}

// broken is the problem of an entry that cannot be opened. Unlike an entry that does not exist, one
// that is a link to nothing is a problem.
func broken(name Name, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return problem(name, errors.New("is a link to a path that does not exist inside of "+Path))
	case errors.Is(err, unix.EXDEV):
		return problem(name, errors.New("is on another file system than "+Path))
	}
	return problem(name, err)
}

// errno is the reason of an error without the path of the descriptor.
func errno(err error) error {
	if pathError, ok := errors.AsType[*os.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// Number is a device number as MAJOR:MINOR.
func Number(device uint64) string {
	return fmt.Sprintf("%d:%d", unix.Major(device), unix.Minor(device))
}

// deviceBytes returns the size of a block device from sysfs: the reporter may not open devices.
func deviceBytes(device string) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/sys/dev/block", device, "size"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("is block device %s, which this node does not have", device)
	}
	if err != nil {
		return 0, err
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("size of block device %s: %w", device, err)
	}
	return sectors * sectorBytes, nil
}

// typeOf names the type of a file.
func typeOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "regular file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFBLK:
		return "block device"
	case unix.S_IFCHR:
		return "character device"
	case unix.S_IFIFO:
		return "FIFO"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "file of an unknown type"
}
