// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host combines the packages that find, inspect and clean a node's disks, so that a
// disk's identity is verified before anything on it is destroyed. All packages below
// pkg/localdisk/device are for Linux only.
package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/files"
	"stowage.dev/stowage/pkg/localdisk/device/filesystem"
	"stowage.dev/stowage/pkg/localdisk/device/health"
	"stowage.dev/stowage/pkg/localdisk/device/identity"
	"stowage.dev/stowage/pkg/localdisk/device/inventory"
	"stowage.dev/stowage/pkg/localdisk/device/links"
	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/device/probe"
	"stowage.dev/stowage/pkg/localdisk/device/superblock"
	"stowage.dev/stowage/pkg/localdisk/device/sysfs"
	"stowage.dev/stowage/pkg/localdisk/device/usage"
	"stowage.dev/stowage/pkg/localdisk/device/wipe"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Config locates the node's files. Empty fields are the defaults of a process on the node itself.
type Config struct {
	// Proc is where the host's /proc is, Sys where /sys is, Dev where its devices are.
	Proc, Sys, Dev string
	// Machine is the machine in identities (identity.ReadMachine). Cleaning Jobs, which cannot
	// read it, take it from the identity of their disk.
	Machine string
	// Fstab is the host's fstab; empty reads none.
	Fstab string
	// KubeletDir is kubelet's root directory on the host, KubeletPath where this
	// process finds it.
	KubeletDir, KubeletPath string
	// Timeout is how long an entry of a discovery directory may take to answer.
	Timeout time.Duration
}

// Host is the node. It is safe for concurrent use; cleans of one disk are the caller's
// to keep apart.
type Host struct {
	*probe.Prober
	*usage.Finder
	inventory.Reader
	links.Folder // disk.LinkFolder
	points       filesystem.Points
	health       *health.Reader
	mountinfo    string
	identity     identity.Host
}

// New makes a Host, which keeps nothing open.
func New(c Config) (*Host, error) {
	c.Proc, c.Sys, c.Dev = cmp.Or(c.Proc, "/proc"), cmp.Or(c.Sys, "/sys"), cmp.Or(c.Dev, "/dev")
	mountinfo := c.Proc + "/1/mountinfo"
	finder, err := usage.New(usage.Config{
		Mountinfo: mountinfo, Swaps: c.Proc + "/swaps", Sys: c.Sys, Dev: c.Dev,
		KubeletDir: cmp.Or(c.KubeletDir, "/var/lib/kubelet"), KubeletPath: c.KubeletPath,
	})
	if err != nil {
		return nil, err
	}
	prober, err := probe.New(probe.Config{
		Usage: finder, HostMountinfo: mountinfo, Fstab: c.Fstab, Sys: c.Sys, Dev: c.Dev, Machine: c.Machine, Timeout: c.Timeout,
	})
	identities := identity.Host{Sys: c.Sys, Machine: c.Machine}
	return &Host{
		Prober: prober, Finder: finder, health: health.New(c.Sys, c.Dev, mountinfo), mountinfo: mountinfo, Folder: links.Folder{Base: "/dev", Path: disk.LinkFolder},
		points:   filesystem.Points{Folder: disk.MountFolder, Mountinfo: mountinfo},
		identity: identities, Reader: inventory.Reader{Dev: c.Dev, Identities: identities, Usage: finder},
	}, err
}

// Cleaned returns whether a clean has left data on a disk, and what. It proves nothing about a
// disk that was not cleaned; see Inspect.
func (h *Host) Cleaned(ctx context.Context, fact disk.Fact, mode disk.Mode) (disk.Content, string, error) {
	if fact.Kind == disk.Device {
		return wipe.Inspect(ctx, fact.Device, mode)
	}
	return h.empty(ctx, fact)
}

// Inspect returns whether a disk holds data, and what. A device that seems to be blank is
// disk.ContentSampled; the byte at suspect, unless that is negative, is read first.
func (h *Host) Inspect(ctx context.Context, fact disk.Fact, suspect int64) (disk.Content, string, error) {
	if fact.Kind == disk.Device {
		return wipe.Sample(ctx, fact.Device, suspect)
	}
	return h.empty(ctx, fact)
}

func (h *Host) empty(ctx context.Context, fact disk.Fact) (disk.Content, string, error) {
	root, err := h.open(ctx, fact)
	if err != nil {
		return disk.ContentUnknown, "", err
	}
	return root.Empty(ctx)
}

// ProveBlank reads a device until every byte was read or one is not zero; see wipe.ProveBlank.
func (h *Host) ProveBlank(ctx context.Context, request disk.BlankProofRequest, progress func(disk.BlankProof) error) (disk.BlankProof, error) {
	return wipe.ProveBlank(ctx, wipe.Blank{
		Device: request.Target.Device, Sys: h.identity.Sys, Bytes: request.Target.Bytes, From: request.From, Rate: request.Rate, Progress: progress,
		Verify: func(device *os.File) error { return h.verifyDevice(device, request.Target) },
	})
}

// Root returns the state of a file system's root; nil for a device.
func (h *Host) Root(ctx context.Context, fact disk.Fact) (json.RawMessage, error) {
	if fact.Kind == disk.Device {
		return nil, nil
	}
	root, err := h.open(ctx, fact)
	if err != nil {
		return nil, err
	}
	return root.Record()
}

// Clean removes all data from a disk, after verifying its identity and that nothing uses it.
// Errors that require an administrator are *disk.Problem.
func (h *Host) Clean(ctx context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error {
	if request.Target.Identity == "" {
		return disk.Problemf(disk.IdentityUnproven, "the request names no disk to clean at %s", request.Target.HostPath)
	}
	users, err := h.Users(ctx, request.Target, request.Volume)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return disk.Problemf(disk.VolumeInUse, "used by %s", users[0])
	}
	if request.Target.Kind != disk.Device {
		return h.cleanFiles(ctx, request, progress)
	}
	method, err := wipe.Parse(request.Command, request.Mode)
	if err != nil {
		return err
	}
	return wipe.Run(ctx, wipe.Target{
		Device: request.Target.Device, Bytes: request.Target.Bytes, Mode: request.Mode, Method: method, Step: request.Step,
		Verify: func(device *os.File) error { return h.verifyDevice(device, request.Target) },
	}, progress)
}

// verifyDevice verifies the identity of an open device.
func (h *Host) verifyDevice(device *os.File, target disk.Fact) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(device.Fd()), &stat); err != nil {
		return fmt.Errorf("examine %s: %w", target.Device, err)
	}
	found, err := h.identity.OfDevice(sysfs.Number(stat.Rdev))
	if err != nil {
		return err
	}
	return same(found, target)
}

func same(found disk.Identity, target disk.Fact) error {
	if found != target.Identity {
		return disk.Problemf(disk.Replaced, "the disk at %s is %s and should be %s", target.HostPath, found, target.Identity)
	}
	return nil
}

func (h *Host) cleanFiles(ctx context.Context, request disk.CleanRequest, progress func(disk.Progress) error) error {
	root, err := h.open(ctx, request.Target)
	if err != nil {
		return err
	}
	root.BeforeClean = func() error { return h.nothingBelow(request.Target) }
	if len(request.Command) > 0 {
		err = root.Run(ctx, request.Command)
	} else {
		err = root.Clean(ctx, progress)
	}
	if err != nil {
		return err
	}
	return root.Restore(request.Root)
}

// Restore restores the state of a file system's root that Root returned; it does nothing for a
// device.
func (h *Host) Restore(ctx context.Context, fact disk.Fact, state json.RawMessage) error {
	if fact.Kind == disk.Device {
		return nil
	}
	root, err := h.open(ctx, fact)
	if err != nil {
		return err
	}
	return root.Restore(state)
}

// Find examines one entry of a folder.
func (h *Host) Find(ctx context.Context, folder disk.Folder, name string) (disk.Fact, error) {
	folder.Names = []string{literal(name)}
	scanned := h.Scan(ctx, disk.Scan{Folders: []disk.Folder{folder}})
	if problem := scanned.Trouble[folder.Class]; problem != nil {
		return disk.Fact{}, problem
	}
	fact, found := scanned.Facts[disk.Key{Class: folder.Class, Name: name}]
	switch {
	case !found:
		return disk.Fact{}, disk.Problemf(disk.Missing, "nothing is at %s/%s", folder.HostPath, name)
	case fact.Problem != nil:
		return disk.Fact{}, fact.Problem
	default:
		return fact, nil
	}
}

// literal is the pattern (path.Match) that matches one name.
func literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(name)
}

// open opens the root of a file system, which is verified every time it is used.
func (h *Host) open(ctx context.Context, fact disk.Fact) (*files.Root, error) {
	return files.Open(fact.Path, func(int) error {
		found, err := h.Identify(ctx, fact)
		if err != nil {
			return err
		}
		return same(found, fact)
	})
}

// nothingBelow verifies that the host has nothing mounted inside a volume.
func (h *Host) nothingBelow(target disk.Fact) error {
	table, err := mounts.Read(h.mountinfo)
	if err != nil {
		return fmt.Errorf("read what is mounted on the host: %w", err)
	}
	for _, below := range table.Below(target.HostPath) {
		return &files.NestedMountError{Path: below.Point}
	}
	return nil
}

// ReadSuperblock reads which file system is on a device, after verifying its identity.
func (h *Host) ReadSuperblock(ctx context.Context, device disk.Fact) (disk.Superblock, error) {
	return superblock.Read(ctx, device.Device, func(file *os.File) error { return h.verifyDevice(file, device) })
}

// ReadContent reads what is on a disk, after verifying its identity. While a read does not answer,
// the disk is not read again.
func (h *Host) ReadContent(ctx context.Context, device disk.BlockDevice) disk.Superblock {
	return h.ReadWithin(ctx, device.Path, func() (disk.Superblock, error) {
		return h.ReadSuperblock(ctx, disk.Fact{Device: device.Path, HostPath: device.Path, Identity: device.Identity})
	})
}

// AddLink points a link of disk.LinkFolder to a device, after verifying its identity.
func (h *Host) AddLink(link string, device disk.Fact) error {
	node, err := wipe.OpenNode(device.Device)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := h.verifyDevice(node, device); err != nil {
		return err
	}
	return h.PutLink(link, device.Device)
}

// LinkTarget returns the device node that a link leads to, or the Place of the device that is
// mounted for a path in disk.MountFolder; empty if there is neither.
func (h *Host) LinkTarget(link string) (string, error) {
	if h.points.Has(link) {
		return h.points.Device(link)
	}
	return h.Folder.LinkTarget(link)
}

// RemoveLink removes a link, or detaches the mount of a path in disk.MountFolder.
func (h *Host) RemoveLink(link string) error {
	if h.points.Has(link) {
		return h.points.Detach(link)
	}
	return h.Folder.RemoveLink(link)
}

// Mount mounts the file system on a device at the path of a volume, after verifying the device's
// identity and that it has this file system.
func (h *Host) Mount(ctx context.Context, v disk.Volume, device disk.Fact, format disk.Format) error {
	return h.points.Mount(v.Link, device.Device, format.Type, v.MountOptions, func(node *os.File) error {
		if err := h.verifyDevice(node, device); err != nil {
			return err
		}
		found, err := h.ReadSuperblock(ctx, device)
		if err == nil && found.Format != format {
			err = disk.Problemf(disk.FilesystemChanged, "%s holds %s, not %s", device.Device, found.Holds(), format)
		}
		return err
	})
}

// Mounted returns the paths in disk.MountFolder that the host has something mounted for.
func (h *Host) Mounted() ([]string, error) { return h.points.Mounted() }

// MakeFilesystem makes a file system on a device, after verifying its identity; see
// filesystem.Make.
func (h *Host) MakeFilesystem(ctx context.Context, device disk.Fact, format disk.Format) error {
	return filesystem.Make(ctx, device.Device, format, func(node *os.File) error { return h.verifyDevice(node, device) })
}

// Unused returns whether a file system that MakeFilesystem has made holds data, and what.
func (h *Host) Unused(device disk.Fact, format disk.Format) (disk.Content, string, error) {
	unused, found, err := filesystem.Unused(device.Device, format.Type, func(node *os.File) error { return h.verifyDevice(node, device) })
	switch {
	case err != nil:
		return disk.ContentUnknown, "", err
	case unused:
		return disk.ContentNone, "", nil
	default:
		return disk.ContentSome, found, nil
	}
}

// LinkDevices makes links, targets by name, the only entries of a folder below /dev. The targets are
// not verified: an entry is examined before it is used.
func (h *Host) LinkDevices(folder string, links map[string]string) error {
	devices := h.Folder
	devices.Path = path.Dir(folder)
	return devices.Replace(path.Base(folder), links)
}

// ReadHealth returns the signs that disks are failing; see health.Reader.
func (h *Host) ReadHealth(targets []disk.HealthTarget, hungAfter time.Duration) (map[disk.Identity][]disk.Sign, error) {
	return h.health.ReadHealth(targets, hungAfter)
}
