// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestDatasetsOfOnePool: writes to another dataset change the size of a free dataset, but neither
// its volume nor the report.
func TestDatasetsOfOnePool(t *testing.T) {
	inBubble(t, func(e *env) {
		f := fact("disk1")
		f.FilesystemType = "zfs"
		e.disks.put(f)
		e.disks.write(f.Identity, "")
		e.start()
		e.phase(corev1.VolumeAvailable)
		e.pass(time.Minute)
		first, before := e.volume(), entryOf(e.provisioner, "disk1")
		for range 10 {
			f.Bytes -= 1 << 20
			e.disks.put(f)
			e.look()
			e.pass(time.Minute)
		}
		if pv := e.volume(); pv == nil || pv.UID != first.UID || len(e.disks.cleaned()) > 0 {
			t.Errorf("the volume is %v, was %s", pv, first.Name)
		}
		e.expect("disk1", "Available")
		if now := entryOf(e.provisioner, "disk1"); now.Bytes != before.Bytes {
			t.Errorf("the report has %d bytes, and had %d", now.Bytes, before.Bytes)
		}
	})
}
