// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package filesystem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/device/wipe"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Points are the mount points of a node's volumes, as FOLDER/CLASS/VOLUME. Paths of volumes are
// POINT/disk.MountedFolder.
type Points struct {
	// Folder is the same path on the node and here.
	Folder string
	// Mountinfo has the mounts of the host.
	Mountinfo string
}

// unknown is the device of a mount that is not as it should be.
const unknown = "?"

// Has reports whether a volume's path is below the folder.
func (p Points) Has(path string) bool { return strings.HasPrefix(path, p.Folder+"/") }

// Device returns the device that the host has mounted for a volume's path, as disk.Fact.Place;
// empty if it has nothing mounted there. It accesses no mount.
func (p Points) Device(volume string) (string, error) {
	point, err := p.point(volume)
	if err != nil {
		return "", err
	}
	at, err := p.mountedAt(point)
	switch {
	case err != nil:
		return "", err
	case len(at) == 0:
		return "", nil
	case len(at) > 1 || at[0].Root != "/":
		return unknown, nil
	default:
		return fmt.Sprintf("dev:%d:%d", at[0].Major, at[0].Minor), nil
	}
}

func (p Points) mountedAt(point string) ([]*mounts.Mount, error) {
	table, err := mounts.Read(p.Mountinfo)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(table.All(), func(m *mounts.Mount) bool { return m.Point != point }), nil
}

// Mounted returns the paths of the volumes that the host has something mounted for.
func (p Points) Mounted() ([]string, error) {
	table, err := mounts.Read(p.Mountinfo)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, m := range table.All() {
		volume := path.Join(m.Point, disk.MountedFolder)
		if _, err := p.point(volume); err == nil && !slices.Contains(paths, volume) {
			paths = append(paths, volume)
		}
	}
	return paths, nil
}

// Mount mounts the file system on a device for a volume's path, in place of what is mounted there,
// without set-user-ID programs and devices. The mount becomes visible only after verify has
// accepted the device, and only with disk.MountedFolder in it. If the host does not see it,
// because mounts of this process are not propagated, it is detached again.
func (p Points) Mount(volume, device, fsType string, options []string, verify func(*os.File) error) error {
	point, err := p.point(volume)
	if err != nil {
		return err
	}
	if err := p.Detach(volume); err != nil {
		return err
	}
	mounted, number, err := open(device, fsType, options, verify)
	if err != nil {
		return err
	}
	defer mounted.Close()
	if err := hasFolder(mounted); err != nil {
		return err
	}
	if err := os.MkdirAll(point, 0o755); err != nil {
		return fmt.Errorf("make the mount point: %w", err)
	}
	if err := unix.MoveMount(int(mounted.Fd()), "", unix.AT_FDCWD, point, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s at %s: %w", device, point, err)
	}
	at, err := p.mountedAt(point)
	switch {
	case err != nil:
	case len(at) == 0:
		err = disk.Problemf(disk.MountMissing,
			"the node does not see the mount at %s: the provisioner's pod must mount %s with mountPropagation Bidirectional", point, p.Folder)
	case len(at) > 1 || fmt.Sprintf("%d:%d", at[0].Major, at[0].Minor) != number:
		err = fmt.Errorf("the node has another mount at %s than that of device %s", point, number)
	default:
		return nil
	}
	return errors.Join(err, p.Detach(volume))
}

// Detach detaches everything that is mounted for a volume's path, and removes the mount point.
// Processes that use the file system keep it, and so do bind mounts. If nothing else uses it, the
// call may take as long as writing what the kernel has not written yet.
func (p Points) Detach(volume string) error {
	point, err := p.point(volume)
	if err != nil {
		return err
	}
	for {
		switch err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT): // not a mount point
			_, _ = os.Remove(point), os.Remove(path.Dir(point)) // the latter is usually not empty
			return nil
		case err != nil:
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
}

// point returns the mount point of a volume's path.
func (p Points) point(volume string) (string, error) {
	parts := strings.Split(strings.TrimPrefix(volume, p.Folder+"/"), "/")
	if path.Clean(volume) != volume || !p.Has(volume) || len(parts) != 3 || parts[2] != disk.MountedFolder {
		return "", fmt.Errorf("the path %s is not %s/CLASS/VOLUME/%s", volume, p.Folder, disk.MountedFolder)
	}
	return path.Dir(volume), nil
}

// Unused reports whether a file system on a device has nothing but an empty disk.MountedFolder, as
// Make has made it, and describes what else it has. It is mounted read-only, and invisibly to
// every process; the kernel completes what its journal has, as at any mount.
func Unused(device, fsType string, verify func(*os.File) error) (unused bool, found string, err error) {
	mounted, _, err := open(device, fsType, []string{"ro"}, verify)
	if err != nil {
		return false, "", err
	}
	defer mounted.Close()
	for _, folder := range []string{".", disk.MountedFolder, "lost+found"} {
		names, err := list(mounted, folder)
		if err != nil && (folder != "lost+found" || !errors.Is(err, fs.ErrNotExist)) {
			return false, "", fmt.Errorf("read folder %s of the file system on %s: %w", folder, device, err)
		}
		for _, name := range names {
			if folder != "." || name != disk.MountedFolder && name != "lost+found" {
				return false, "files in folder " + folder + " of its file system", nil
			}
		}
	}
	return true, "", nil
}

func list(mounted *os.File, folder string) ([]string, error) {
	fd, err := unix.Openat(int(mounted.Fd()), folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	opened := os.NewFile(uintptr(fd), folder)
	defer opened.Close()
	names, err := opened.Readdirnames(3) // one more than may be there
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// makeFolder makes disk.MountedFolder in a new file system. It belongs to root, as the root of a
// file system that kubelet made.
func makeFolder(device string, format disk.Format, verify func(*os.File) error) error {
	mounted, _, err := open(device, format.Type, nil, verify)
	if err != nil {
		return err
	}
	defer mounted.Close()
	if err := unix.Mkdirat(int(mounted.Fd()), disk.MountedFolder, 0o755); err != nil {
		return fmt.Errorf("make folder %s in the file system on %s: %w", disk.MountedFolder, device, err)
	}
	if err := unix.Fchmodat(int(mounted.Fd()), disk.MountedFolder, 0o755, 0); err != nil { // whatever the umask
		return fmt.Errorf("set the mode of folder %s in the file system on %s: %w", disk.MountedFolder, device, err)
	}
	root, err := unix.Openat(int(mounted.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the file system on %s: %w", device, err)
	}
	defer unix.Close(root)
	if err := unix.Syncfs(root); err != nil {
		return fmt.Errorf("write the file system on %s: %w", device, err)
	}
	return nil
}

// hasFolder returns an error if disk.MountedFolder is not a folder. It is never made in a file
// system that may have been used: an empty one would seem to be the volume.
func hasFolder(mounted *os.File) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(mounted.Fd()), disk.MountedFolder, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		return disk.Problemf(disk.FilesystemChanged, "the volume's file system has no folder %s (%v)", disk.MountedFolder, err)
	}
	return nil
}

// attributes are the options that belong to a mount. All others belong to the file system.
var attributes = map[string]int{
	"noexec": unix.MOUNT_ATTR_NOEXEC, "noatime": unix.MOUNT_ATTR_NOATIME, "strictatime": unix.MOUNT_ATTR_STRICTATIME,
	"nodiratime": unix.MOUNT_ATTR_NODIRATIME,
	// What these request is so in any case.
	"defaults": 0, "rw": 0, "relatime": 0, "nosuid": 0, "nodev": 0,
}

// open mounts the file system on a device, and attaches the mount nowhere: it ends with the file
// unless that is moved. It also returns the number of the device, which verify has accepted.
func open(device, fsType string, options []string, verify func(*os.File) error) (*os.File, string, error) {
	fail := func(err error) (*os.File, string, error) {
		return nil, "", fmt.Errorf("mount the file system on %s: %w", device, err)
	}
	node, number, err := verified(device, verify)
	if err != nil {
		return fail(err)
	}
	defer node.Close()
	fsfd, err := unix.Fsopen(fsType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fail(err) // ENOSYS: older than Linux 5.2
	}
	context := os.NewFile(uintptr(fsfd), fsType)
	defer context.Close()
	attributes, err := configure(context, device, options)
	if err != nil {
		return fail(err)
	}
	fd, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return fail(explain(context, err))
	}
	mounted := os.NewFile(uintptr(fd), device)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && sysfs.Number(st.Dev) != number {
		err = fmt.Errorf("it is on device %s, not %s", sysfs.Number(st.Dev), number)
	}
	if err == nil {
		err = verify(node) // the name may have led to another device meanwhile
	}
	if err != nil {
		_ = mounted.Close()
		return fail(err)
	}
	return mounted, number, nil
}

// verified returns the node of a device that verify accepts, with the device's number.
func verified(device string, verify func(*os.File) error) (*os.File, string, error) {
	node, err := wipe.OpenNode(device)
	if err != nil {
		return nil, "", err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(node.Fd()), &st); err == nil {
		err = verify(node)
	}
	if err != nil {
		_ = node.Close()
		return nil, "", err
	}
	return node, sysfs.Number(st.Rdev), nil
}

// configure sets what is mounted, and returns the attributes of the mount.
func configure(context *os.File, device string, options []string) (int, error) {
	fd, flags := int(context.Fd()), unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV
	if err := unix.FsconfigSetString(fd, "source", device); err != nil {
		return 0, explain(context, err)
	}
	for _, option := range slices.DeleteFunc(strings.Split(strings.Join(options, ","), ","), func(o string) bool { return o == "" }) {
		if attribute, ok := attributes[option]; ok {
			flags |= attribute
			continue
		}
		key, value, hasValue := strings.Cut(option, "=")
		err := error(nil)
		if hasValue {
			err = unix.FsconfigSetString(fd, key, value)
		} else {
			err = unix.FsconfigSetFlag(fd, key)
		}
		if err != nil {
			return 0, fmt.Errorf("option %s: %w", option, explain(context, err))
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return 0, explain(context, err)
	}
	return flags, nil
}

// explain adds the kernel's messages to an error.
func explain(context *os.File, err error) error {
	var messages []string
	buffer := make([]byte, 1024)
	for len(messages) < 4 {
		n, readErr := unix.Read(int(context.Fd()), buffer)
		if n <= 0 || readErr != nil {
			break
		}
		messages = append(messages, strings.TrimSpace(string(buffer[:n])))
	}
	if len(messages) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(messages, "; "))
}
