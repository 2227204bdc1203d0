// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"path"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/pkg/localdisk/device/identity"
	"stowage.dev/stowage/pkg/localdisk/device/mounts"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// attachment returns the attachment of the file system at an entry, which is on mount m. It is
// that of the host's mount, since the provisioner's own differs after each start of its
// container.
func (e *entry) attachment(m *mounts.Mount) (disk.Attachment, error) {
	for _, p := range e.hostPaths() {
		if on, ok := e.view.host.Over(p); ok && on.Major == m.Major && on.Minor == m.Minor {
			if id, ok := e.uniqueID(on); ok {
				return identity.AttachmentOfMount(id, true)
			}
			return identity.AttachmentOfMount(uint64(on.ID), false)
		}
	}
	return "", nil
}

// uniqueID is the ID of a mount of the host that no other mount has until the node restarts.
// Kernels before 6.8 have none.
func (e *entry) uniqueID(m *mounts.Mount) (uint64, bool) {
	for p := path.Dir(m.Point); p != "/"; p = path.Dir(p) {
		if on, ok := e.view.host.Over(p); ok && !passable(on.FSType) {
			return 0, false // the path may not answer
		}
	}
	root := path.Join(path.Dir(e.cfg.HostMountinfo), "root")
	st, err := statx(path.Join(root, m.Point), unix.STATX_MNT_ID_UNIQUE)
	if err != nil || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return 0, false
	}
	return st.Mnt_id, true
}
