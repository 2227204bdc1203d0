// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"path/filepath"
	"testing"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

// BenchmarkScan is a rescan of a hundred entries: 50 file systems in memory and 50
// links to devices.
func BenchmarkScan(b *testing.B) {
	f := newFolder(b, "a")
	device := newDisk(b)
	for i := range 50 {
		mount(b, filepath.Join(f.Path, fmt.Sprint("mnt", i)), "-t", "tmpfs", "-o", "size=1M", "none")
		link(b, device, f.Path, fmt.Sprint("dev", i))
	}
	p := newProber(b)
	ask := disk.Scan{Folders: []disk.Folder{f}}
	if got := len(p.Scan(b.Context(), ask).Facts); got != 100 {
		b.Fatalf("%d facts", got)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Scan(b.Context(), ask)
	}
}
