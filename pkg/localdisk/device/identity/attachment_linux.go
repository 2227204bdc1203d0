// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"path/filepath"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// AttachmentOfDevice returns the attachment of a block device, "<major>:<minor>"; that of a
// partition is its disk's. It is empty on kernels before 5.15, which do not number disks.
func (h Host) AttachmentOfDevice(number string) (disk.Attachment, error) {
	folder, err := filepath.EvalSymlinks(filepath.Join(h.Sys, "dev/block", number))
	if err != nil {
		return "", fmt.Errorf("find the attachment of device %s: %w", number, err)
	}
	partition, err := attribute(folder, "partition")
	if err != nil {
		return "", err
	}
	if partition != "" {
		folder = filepath.Dir(folder)
	}
	diskseq, err := attribute(folder, "diskseq")
	if err != nil || diskseq == "" {
		return "", err
	}
	boot, err := bootID()
	if err != nil {
		return "", err
	}
	return disk.Attachment(boot + "/diskseq:" + tidy(diskseq)), nil
}

// AttachmentOfMount returns the attachment of a file system by the ID of its mount. unique
// is STATX_MNT_ID_UNIQUE: the ID is given to no other mount until the node restarts.
func AttachmentOfMount(id uint64, unique bool) (disk.Attachment, error) {
	boot, err := bootID()
	if err != nil {
		return "", err
	}
	kind := "mount-id"
	if unique {
		kind = "mount"
	}
	return disk.Attachment(fmt.Sprintf("%s/%s:%d", boot, kind, id)), nil
}
