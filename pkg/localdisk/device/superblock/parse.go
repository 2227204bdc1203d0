// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package superblock reads which file system is on a block device: its type and its UUID, as
// blkid prints them, for the types that kubelet formats devices with.
//
// A file system is reported only if its superblock is valid by the rules of libblkid, checksum
// included. kubelet formats a device on which blkid finds nothing, and blkid ignores a
// superblock with a wrong checksum: a magic number alone proves too little.
package superblock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"strings"

	"stowage.dev/stowage/pkg/localdisk/device/wipe"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// Size is how many bytes of a device Parse needs, from its beginning: the furthest
// superblock is that of btrfs, 4 KiB at 64 KiB.
const Size = 72 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Parse returns the file system in the first bytes of a device, which are Size or as many as the
// device has. Without a valid superblock the result is blank; Read checks for other signatures.
func Parse(image []byte) disk.Superblock {
	var found disk.Format
	var names []string
	for _, parse := range []func([]byte) (disk.Format, bool){ext, xfs, btrfs} {
		if filesystem, ok := parse(image); ok {
			found, names = filesystem, append(names, filesystem.String())
		}
	}
	if len(names) > 1 {
		return disk.Superblock{Other: "several file systems (" + strings.Join(names, ", ") + ")"}
	}
	return disk.Superblock{Format: found}
}

// at returns n bytes of an image; nil if it has fewer.
func at(image []byte, offset, n int) []byte {
	if offset < 0 || n < 0 || len(image)-n < offset {
		return nil
	}
	return image[offset : offset+n]
}

// Feature flags of ext2 to ext4, as in e2fsprogs' ext2_fs.h.
const (
	extHasJournal   = 0x4   // compatible
	extJournalDev   = 0x8   // incompatible
	extMetadataCsum = 0x400 // read-only compatible
	// The features of the other two sets that ext2 and ext3 support; ext3 also supports
	// extRecover.
	extReadOnly     = 0x1 | 0x2 | 0x4
	extIncompatible = 0x2 | 0x10
	extRecover      = 0x4
)

// ext reads a superblock of ext2, ext3 or ext4, distinguished as by libblkid.
func ext(image []byte) (disk.Format, bool) {
	s := at(image, 1024, 1024)
	if s == nil || binary.LittleEndian.Uint16(s[0x38:]) != 0xEF53 {
		return disk.Format{}, false
	}
	compatible := binary.LittleEndian.Uint32(s[0x5c:])
	incompatible := binary.LittleEndian.Uint32(s[0x60:])
	readOnly := binary.LittleEndian.Uint32(s[0x64:])
	if readOnly&extMetadataCsum != 0 && binary.LittleEndian.Uint32(s[0x3fc:]) != ^crc32.Checksum(s[:0x3fc], castagnoli) {
		return disk.Format{}, false
	}
	kind := "ext4"
	switch {
	case incompatible&extJournalDev != 0:
		return disk.Format{}, false
	case readOnly&^extReadOnly != 0 || incompatible&^(extIncompatible|extRecover) != 0:
	case compatible&extHasJournal != 0:
		kind = "ext3"
	case incompatible&^extIncompatible == 0:
		kind = "ext2"
	default:
		return disk.Format{}, false
	}
	return disk.Format{Type: kind, UUID: uuid(s[0x68:])}, true
}

// xfs reads a superblock of XFS. Those of version 5 have a checksum; the sizes in older ones must
// agree, by the rules of libblkid. An XFS whose mkfs was interrupted is none: it cannot be mounted.
func xfs(image []byte) (disk.Format, bool) {
	s := at(image, 0, 512)
	if s == nil || !bytes.HasPrefix(s, []byte("XFSB")) {
		return disk.Format{}, false
	}
	sector := int(binary.BigEndian.Uint16(s[102:]))
	if inProgress := s[126] != 0; inProgress || sector < 512 || sector > 32<<10 || !sensible(s) {
		return disk.Format{}, false
	}
	if binary.BigEndian.Uint16(s[100:])&0xf == 5 {
		s = bytes.Clone(at(image, 0, sector))
		if s == nil {
			return disk.Format{}, false
		}
		stored := binary.LittleEndian.Uint32(s[224:])
		clear(s[224:228])
		if stored != crc32.Checksum(s, castagnoli) {
			return disk.Format{}, false
		}
	}
	return disk.Format{Type: "xfs", UUID: uuid(s[32:])}, true
}

// sensible reports whether the sizes in a superblock of XFS agree (xfs_verify_sb of libblkid).
func sensible(s []byte) bool {
	block, blocks := uint64(binary.BigEndian.Uint32(s[4:])), binary.BigEndian.Uint64(s[8:])
	extent := uint64(binary.BigEndian.Uint32(s[80:])) * block
	groupBlocks, groups := uint64(binary.BigEndian.Uint32(s[84:])), uint64(binary.BigEndian.Uint32(s[88:]))
	sector, inode := uint64(binary.BigEndian.Uint16(s[102:])), uint64(binary.BigEndian.Uint16(s[104:]))
	blockLog, sectorLog, inodeLog, inodesLog := s[120], s[121], s[122], s[123]
	return groups > 0 &&
		sectorLog >= 9 && sectorLog <= 15 && sector == 1<<sectorLog &&
		blockLog >= 9 && blockLog <= 16 && block == 1<<blockLog &&
		inodeLog >= 8 && inodeLog <= 11 && inode == 1<<inodeLog && blockLog-inodeLog == inodesLog &&
		extent >= 4<<10 && extent <= 1<<30 && s[127] <= 100 &&
		blocks > 0 && blocks <= groups*groupBlocks && blocks >= (groups-1)*groupBlocks+64
}

// btrfs reads the first superblock of btrfs. Its checksum may be one of four; what is
// not checked here (xxhash, BLAKE2) takes an administrator's mkfs.
func btrfs(image []byte) (disk.Format, bool) {
	s := at(image, 64<<10, 4096)
	if s == nil || string(s[0x40:0x48]) != "_BHRfS_M" {
		return disk.Format{}, false
	}
	valid := true
	switch binary.LittleEndian.Uint16(s[0xc4:]) {
	case 0:
		valid = binary.LittleEndian.Uint32(s) == crc32.Checksum(s[0x20:], castagnoli)
	case 2:
		sum := sha256.Sum256(s[0x20:])
		valid = bytes.Equal(sum[:], s[:0x20])
	}
	return disk.Format{Type: "btrfs", UUID: uuid(s[0x20:])}, valid
}

func uuid(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Read reads, past the page cache, what is on the block device at a path, which may be
// mounted. verify is called with the open device before it is read, to verify its identity. If
// no file system is found, the whole device is searched for the signatures of wipe.Inspect, so
// that Blank is never reported for what blkid knows.
//
// The call may hang for as long as the device does.
func Read(ctx context.Context, path string, verify func(device *os.File) error) (disk.Superblock, error) {
	image, err := wipe.ReadStart(path, Size, verify)
	if err != nil {
		return disk.Superblock{}, fmt.Errorf("read the superblock of %s: %w", path, err)
	}
	found := Parse(image)
	if !found.Blank() {
		return found, nil
	}
	_, what, err := wipe.Inspect(ctx, path, disk.Filesystem)
	return disk.Superblock{Other: what}, err
}
