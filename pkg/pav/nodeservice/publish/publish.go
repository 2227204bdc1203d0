// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publish mounts staged volumes at the target paths that kubelet names, and unmounts them.
package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/pav/nodeservice/stagingdir"
	"stowage.dev/stowage/pkg/pav/pavdir"
	"stowage.dev/stowage/pkg/pav/report"
)

// Config names directories of the node.
type Config struct {
	KubeletDir string // kubelet's --root-dir
	Proc       string // /proc
}

// Publisher publishes volumes. Safe for concurrent use.
type Publisher struct{ Config }

// New returns a Publisher.
func New(config Config) (*Publisher, error) {
	if !filepath.IsAbs(config.KubeletDir) {
		return nil, fmt.Errorf("kubelet's directory %q is not an absolute path", config.KubeletDir)
	}
	config.KubeletDir = filepath.Clean(config.KubeletDir)
	return &Publisher{config}, nil
}

// Below kubelet's directory: the target paths of volumes with a file system, and of block volumes.
const (
	podsDir    = "pods"
	devicesDir = "plugins/kubernetes.io/csi/volumeDevices"
)

// ErrTarget is the error of target paths that kubelet does not use.
var ErrTarget = errors.New("is not a target path of kubelet")

// Options are those of one mount.
type Options struct {
	ReadOnly bool
	// Flags are mount options. Those that are not of a mount, but of a file system, have no effect.
	Flags []string
}

var attributes = map[string]uint64{
	"ro": unix.MOUNT_ATTR_RDONLY, "nosuid": unix.MOUNT_ATTR_NOSUID, "nodev": unix.MOUNT_ATTR_NODEV, "noexec": unix.MOUNT_ATTR_NOEXEC,
	"noatime": unix.MOUNT_ATTR_NOATIME, "nodiratime": unix.MOUNT_ATTR_NODIRATIME,
}

func (o Options) attributes(kind report.Kind) *unix.MountAttr {
	attr := &unix.MountAttr{Propagation: unix.MS_PRIVATE}
	for _, flag := range o.Flags {
		attr.Attr_set |= attributes[flag]
	}
	if attr.Attr_set&unix.MOUNT_ATTR_NOATIME != 0 {
		attr.Attr_clr |= unix.MOUNT_ATTR__ATIME
	}
	if o.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if kind == report.Directory {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV // what a container cannot open on its own, a volume does not offer
	} else {
		attr.Attr_set &^= unix.MOUNT_ATTR_NODEV
	}
	return attr
}

// Publish mounts a volume, but not what is mounted below it, at a target path, whose parent exists. It
// is mounted with all its attributes at once. A target where the volume is mounted already stays.
func (p *Publisher) Publish(v *stagingdir.Volume, target string, o Options) error {
	parent, name, err := p.open(target)
	if err != nil {
		return err
	}
	defer parent.Close()
	at, err := makeTarget(parent, name, v.Report().Kind)
	if err != nil {
		return fmt.Errorf("create target path %s: %w", target, err)
	}
	defer at.Close()
	mounted, err := isVolume(at, v)
	if err != nil || mounted {
		return wrap(err, "target path %s", target)
	}
	tree, err := unix.OpenTree(int(v.File().Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone the mount of /pav/volume: %w", err)
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, o.attributes(v.Report().Kind)); err != nil {
		return fmt.Errorf("set the attributes of a mount: %w", err)
	}
	err = unix.MoveMount(tree, "", int(at.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	return wrap(err, "mount the volume at %s", target)
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// confined resolves a path below an open directory without symbolic links.
const confined = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// open opens the parent of a target path. The error is ErrTarget if kubelet does not use the path, and
// fs.ErrNotExist if the parent does not exist.
func (p *Publisher) open(target string) (parent *os.File, name string, err error) {
	relative, ok := strings.CutPrefix(target, p.KubeletDir+"/")
	if !ok || filepath.Clean(target) != target || !mounts.Within(podsDir, relative) && !mounts.Within(devicesDir, relative) {
		return nil, "", fmt.Errorf("%q %w: must be below %s/%s or %[3]s/%[5]s, without . and ..", target, ErrTarget, p.KubeletDir, podsDir, devicesDir)
	}
	root, err := os.OpenFile(p.KubeletDir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, "", fmt.Errorf("open kubelet's directory: %w", err)
	}
	defer root.Close()
	parent, err = openat(root, filepath.Dir(relative), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, "", &fs.PathError{Op: "open the parent of target path", Path: target, Err: err}
	}
	return parent, filepath.Base(relative), nil
}

func openat(dir *os.File, path string, flags uint64) (*os.File, error) {
	for {
		fd, err := unix.Openat2(int(dir.Fd()), path, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: confined})
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN):
			return nil, err
		}
	}
}

// makeTarget opens what a volume is to be mounted on, which is created if it does not exist.
func makeTarget(parent *os.File, name string, kind report.Kind) (*os.File, error) {
	var err error
	if kind == report.Directory {
		err = unix.Mkdirat(int(parent.Fd()), name, 0o750)
	} else {
		err = unix.Mknodat(int(parent.Fd()), name, unix.S_IFREG|0o600, 0)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	return openat(parent, name, unix.O_PATH)
}

// isVolume reports whether something is mounted at a target; an error if that is not the volume.
func isVolume(at *os.File, v *stagingdir.Volume) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(at.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st); err != nil {
		return false, err
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return false, nil
	}
	want := v.Report()
	if pavdir.Number(unix.Mkdev(st.Dev_major, st.Dev_minor)) != want.FileSystem || st.Ino != want.Inode {
		return false, errors.New("something else is mounted there")
	}
	return true, nil
}

// Unpublish unmounts what is mounted at a target path, and removes the path. It does not access what is
// mounted, and does nothing if the path does not exist.
func (p *Publisher) Unpublish(target string) error {
	parent, name, err := p.open(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	path := fmt.Sprintf("%s/self/fd/%d/%s", p.Proc, parent.Fd(), name)
	for err == nil {
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	}
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // it is not a mount point any more
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	err = unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTDIR) {
		err = unix.Unlinkat(int(parent.Fd()), name, 0)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return wrap(err, "remove target path %s", target)
}

// Stats are those of a volume at its target path. Inodes are 0 for block devices.
type Stats struct {
	Kind                                report.Kind
	Bytes, BytesUsed, BytesAvailable    int64
	Inodes, InodesUsed, InodesAvailable int64
}

// Stats returns the statistics of the volume at a target path. It waits for the server of a file system.
func (p *Publisher) Stats(target string) (Stats, error) {
	parent, name, err := p.open(target)
	if err != nil {
		return Stats{}, err
	}
	defer parent.Close()
	at, err := openat(parent, name, unix.O_PATH)
	if err != nil {
		return Stats{}, &fs.PathError{Op: "open", Path: target, Err: err}
	}
	defer at.Close()
	volume, err := pavdir.VolumeOf(at)
	if err != nil {
		return Stats{}, fmt.Errorf("target path %s: %w", target, err)
	}
	if volume.Kind == report.BlockDevice {
		return Stats{Kind: volume.Kind, Bytes: volume.Bytes}, nil
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(at.Fd()), &st); err != nil {
		return Stats{}, fmt.Errorf("target path %s: %w", target, err)
	}
	block := st.Bsize
	return Stats{
		Kind:  volume.Kind,
		Bytes: int64(st.Blocks) * block, BytesUsed: int64(st.Blocks-st.Bfree) * block, BytesAvailable: int64(st.Bavail) * block,
		Inodes: int64(st.Files), InodesUsed: int64(st.Files - st.Ffree), InodesAvailable: int64(st.Ffree),
	}, nil
}

// volumeData is what kubelet writes about a CSI volume (k8s.io/kubernetes/pkg/volume/csi).
type volumeData struct {
	Driver string `json:"driverName"`
	Handle string `json:"volumeHandle"`
}

// each calls found with the data of each CSI volume that kubelet has, and the path at or below which it
// is mounted. Files that cannot be read are skipped: kubelet removes them at any time.
func (p *Publisher) each(found func(data volumeData, target string)) error {
	for pattern, target := range map[string]string{
		filepath.Join(p.KubeletDir, podsDir, "*/volumes/kubernetes.io~csi/*/vol_data.json"): "mount",
		filepath.Join(p.KubeletDir, devicesDir, "*/data/vol_data.json"):                     "",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("list kubelet's volumes: %w", err)
		}
		for _, file := range files {
			var data volumeData
			if text, err := os.ReadFile(file); err != nil || json.Unmarshal(text, &data) != nil {
				continue
			}
			at := filepath.Join(filepath.Dir(file), target)
			if target == "" {
				spec := filepath.Base(filepath.Dir(filepath.Dir(file)))
				at = filepath.Join(p.KubeletDir, devicesDir, "publish", spec)
			}
			found(data, at)
		}
	}
	return nil
}

// Targets returns where a volume is mounted for pods. key is what stowage.PavVolumeKey returns.
func (p *Publisher) Targets(key string) ([]string, error) {
	var targets []string
	table, err := mounts.Read(filepath.Join(p.Proc, "self/mountinfo"))
	if err != nil {
		return nil, err
	}
	err = p.each(func(data volumeData, target string) {
		if stowage.PavVolumeKey(data.Driver, data.Handle) != key {
			return
		}
		if _, mounted := table.At(target); mounted {
			targets = append(targets, target)
		}
		for _, mount := range table.Below(target) {
			targets = append(targets, mount.Point)
		}
	})
	return targets, err
}

// Drivers returns the drivers of the CSI volumes that kubelet has.
func (p *Publisher) Drivers() (map[string]bool, error) {
	drivers := map[string]bool{}
	err := p.each(func(data volumeData, _ string) { drivers[data.Driver] = true })
	return drivers, err
}
