// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestDatasetsOfOnePool: a neighbour that is written to changes the size of a free dataset, which
// changes neither its volume nor the report.
func TestDatasetsOfOnePool(t *testing.T) {
	inBubble(t, func(w *env) {
		f := fact("disk1")
		f.FilesystemType = "zfs"
		w.disks.put(f)
		w.disks.write(f.Identity, "")
		w.start()
		w.phase(corev1.VolumeAvailable)
		w.pass(time.Minute)
		first, before := w.volume(), entryOf(w.provisioner, "disk1")
		for range 10 {
			f.Bytes -= 1 << 20
			w.disks.put(f)
			w.look()
			w.pass(time.Minute)
		}
		if pv := w.volume(); pv == nil || pv.UID != first.UID || len(w.disks.cleaned()) > 0 {
			t.Errorf("the volume is %v, was %s", pv, first.Name)
		}
		w.expect("disk1", "Available")
		if now := entryOf(w.provisioner, "disk1"); now.Bytes != before.Bytes {
			t.Errorf("the report says %d bytes, and said %d", now.Bytes, before.Bytes)
		}
	})
}
