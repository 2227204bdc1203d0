// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"fmt"
	"testing"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
)

// BenchmarkGather gathers each of 1,000 slots once, on a node with 1,000 records.
func BenchmarkGather(b *testing.B) {
	const slots = 1000
	for name, identity := range map[string]struct{ recorded, now string }{
		"every disk has a record":       {"serial:m:%d@m1", "serial:m:%d@m1"},
		"after the machine was changed": {"serial:m:%d@m1", "serial:m:%d@m2"},
		"other disks":                   {"serial:m:%d@m1", "serial:n:%d@m1"},
		"disks without a name":          {"weak:b1:%d", "weak:b2:%d"},
	} {
		b.Run(name, func(b *testing.B) {
			records, err := diskrecord.Open(b.TempDir(), "/proc")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := records.Close(); err != nil {
					b.Error(err)
				}
			})
			disks := newDisks()
			config, err := provisioner.Decode(map[string]string{"storageClassMap": "fast: {hostDir: " + folder + "}"})
			if err != nil {
				b.Fatal(err)
			}
			p, err := New(Config{
				Node: node, Machine: "m1", Client: newAPI(), Events: &recorder{}, Prober: disks, Inspector: disks, Cleaner: disks, Fence: disks, Devices: disks,
				Records: records, Settings: config,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer p.queue.ShutDown()
			scanned := disk.Scanned{Facts: map[disk.Key]disk.Fact{}}
			paths := make([]string, slots)
			for i := range slots {
				f := fact(fmt.Sprintf("disk%d", i))
				f.Kind, f.Identity, paths[i] = disk.Device, disk.Identity(fmt.Sprintf(identity.now, i)), f.HostPath
				scanned.Facts[f.Key] = f
				record := disk.Record{Identity: disk.Identity(fmt.Sprintf(identity.recorded, i)), Key: f.Key, HostPath: f.HostPath, Kind: f.Kind, State: disk.Published}
				if err := records.Put(record); err != nil {
					b.Fatal(err)
				}
			}
			p.paths.scanned(scanned, p.settings.folders, nil, 0)
			for b.Loop() {
				for _, path := range paths {
					p.gather(path, answers{})
				}
			}
		})
	}
}
