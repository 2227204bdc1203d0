// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"path"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
)

// inMountedBubble is inBubble with a class whose file systems the provisioner makes and mounts.
func inMountedBubble(t *testing.T, test func(e *env)) {
	t.Helper()
	inBubble(t, func(e *env) {
		configure(e.config, func(c *provisioner.Class) { c.Mount, c.FSType = provisioner.MountAgent, "ext4" })
		test(e)
	})
}

// attached returns a device that has been attached since a boot.
func attached(name, boot string) disk.Fact {
	f := device(name)
	f.Attachment = disk.Attachment(boot + "/diskseq:1")
	return f
}

// made checks the calls of MakeFilesystem since the last check.
func (e *env) made(want ...string) {
	e.t.Helper()
	if diff := cmp.Diff(want, e.disks.formattedDisks()); diff != "" {
		e.t.Errorf("file systems made: %s", diff)
	}
}

// reboot stops the provisioner, and starts it after a restart of the node, which has nothing
// mounted.
func (e *env) reboot(change func()) {
	e.t.Helper()
	e.stop()
	e.disks.mu.Lock()
	clear(e.disks.links)
	e.disks.mu.Unlock()
	e.disks.put(attached("a", "boot2"))
	change()
	e.start()
	e.pass(time.Minute)
}

// TestMounted follows a device whose file system the provisioner makes and mounts: published,
// used, detached while its content is not proven, released, cleaned and published again.
func TestMounted(t *testing.T) {
	inMountedBubble(t, func(e *env) {
		e.disks.put(attached("a", "boot1"))
		e.start()
		e.made("a ext4")
		pv, record := e.volume(), e.record("wwn:a")
		if want := path.Join("/var/lib/stowage/mounts/fast", pv.Name, "data"); pv.Spec.Local.Path != want {
			t.Errorf("the volume's path is %s, want %s", pv.Spec.Local.Path, want)
		}
		format := e.disks.formats["wwn:a"].Format
		if record.Formatting != nil || record.Filesystem == nil || *record.Filesystem != format || record.State != disk.Published {
			t.Errorf("the record is %+v, want one with file system %s", record, format)
		}
		e.linked("dev:8:a")

		e.phase(corev1.VolumeBound)
		e.linked("dev:8:a")
		e.disks.format("wwn:a", disk.Superblock{})
		e.pass(fencePeriod)
		e.linked()
		e.expect("a", "Bound: SignatureLost")
		e.disks.format("wwn:a", disk.Superblock{Format: format})
		e.pass(fencePeriod)
		e.linked("dev:8:a")
		e.expect("a", "Bound")
		e.made()

		e.phase(corev1.VolumeReleased)
		e.pass(time.Minute)
		e.made("a ext4")
		e.linked("dev:8:a")
		if again := e.volume(); again == nil || again.UID == pv.UID {
			t.Error("the volume was not published again")
		}
		if again := e.record("wwn:a"); *again.Filesystem == format {
			t.Errorf("the next volume has the file system of the former one, %s", format)
		}
	})
}

// TestMountedAfterReboot: what is mounted again after a restart of the node.
func TestMountedAfterReboot(t *testing.T) {
	for name, test := range map[string]struct {
		bound  bool
		change func(e *env)
		want   []string
		reason string
		made   []string
	}{
		"bound":                    {true, func(*env) {}, []string{"dev:8:a"}, "Bound", nil},
		"bound, superblock zeroed": {true, func(e *env) { e.disks.format("wwn:a", disk.Superblock{}) }, nil, "Bound: SignatureLost", nil},
		"bound, another disk": {true, func(e *env) {
			f := attached("a", "boot2")
			f.Identity = "wwn:b"
			e.disks.put(f)
		}, nil, "Replaced: Replaced", nil},
		"free":                    {false, func(*env) {}, []string{"dev:8:a"}, "Available", nil},
		"free, superblock zeroed": {false, func(e *env) { e.disks.format("wwn:a", disk.Superblock{}) }, nil, "Available: SignatureLost", nil},
		"free, with data":         {false, func(e *env) { e.disks.write("wwn:a", "files") }, nil, "Retained: VolumeVanished", nil},
	} {
		t.Run(name, func(t *testing.T) {
			inMountedBubble(t, func(e *env) {
				e.disks.put(attached("a", "boot1"))
				e.start()
				e.made("a ext4")
				e.phase(corev1.VolumeAvailable)
				if test.bound {
					e.phase(corev1.VolumeBound)
				}
				e.reboot(func() { test.change(e) })
				e.linked(test.want...)
				e.expect("a", test.reason)
				e.made(test.made...)
			})
		})
	}
}

// TestMountedAfterRestart: a provisioner keeps the mount of a volume, and detaches one that is
// not right, or that no volume has.
func TestMountedAfterRestart(t *testing.T) {
	inMountedBubble(t, func(e *env) {
		e.disks.put(attached("a", "boot1"))
		e.startBound()
		e.linked("dev:8:a")
		e.stop()
		link := e.volume().Spec.Local.Path
		e.disks.mu.Lock()
		e.disks.links["/var/lib/stowage/mounts/fast/gone/data"] = "dev:8:c"
		e.disks.mu.Unlock()
		e.disks.hang("wwn:a")
		e.start()
		if diff := cmp.Diff(map[string]string{link: "dev:8:a"}, e.disks.linked()); diff != "" {
			t.Errorf("before the disk is read: %s", diff)
		}
		e.disks.free()
		e.stop()
		e.disks.mu.Lock()
		e.disks.links[link] = "dev:8:c"
		e.disks.mu.Unlock()
		e.start()
		e.pass(time.Minute)
		e.linked("dev:8:a")
	})
}

// TestMkfs: a disk is published only after its file system was made.
func TestMkfs(t *testing.T) {
	inMountedBubble(t, func(e *env) {
		e.disks.cannotMake = disk.Problemf(disk.MkfsMissing, "there is no mkfs.ext4")
		e.disks.put(attached("a", "boot1"))
		e.start()
		e.expect("a", "Pending: MkfsMissing")
		before := e.record("wwn:a")
		if before.State != disk.Clean || before.Formatting == nil || before.Formatting.Type != "ext4" || before.Formatting.UUID == "" || e.volume() != nil {
			t.Errorf("the record is %+v, and the volume %v", before, e.volume())
		}

		t.Log("An interrupted mkfs has left a superblock")
		e.stop()
		e.disks.formattedDisks()
		e.disks.cannotMake = nil
		e.disks.format("wwn:a", disk.Superblock{Format: *before.Formatting})
		e.start()
		e.made("a ext4")
		e.expect("a", "Pending")
		if after := e.record("wwn:a"); after.Filesystem == nil || *after.Filesystem != *before.Formatting {
			t.Errorf("the file system is %v, want the one that was begun, %s", after.Filesystem, before.Formatting)
		}
	})
}

// TestMkfsInterruptedByReboot: what mkfs has left is recognized after a restart of the node, and
// nothing else is overwritten.
func TestMkfsInterruptedByReboot(t *testing.T) {
	for name, test := range map[string]struct {
		found  func(begun disk.Format) disk.Superblock
		want   []string
		reason string
	}{
		"nothing":               {func(disk.Format) disk.Superblock { return disk.Superblock{} }, []string{"a ext4"}, "Pending"},
		"its superblock":        {func(begun disk.Format) disk.Superblock { return disk.Superblock{Format: begun} }, []string{"a ext4"}, "Pending"},
		"an invalid superblock": {func(disk.Format) disk.Superblock { return disk.Superblock{Other: "ext2/ext3/ext4/jbd at byte 1080"} }, []string{"a ext4"}, "Pending"},
		"another file system":   {func(disk.Format) disk.Superblock { return formatted }, nil, "Skipped: NotEmpty"},
		"a partition table":     {func(disk.Format) disk.Superblock { return disk.Superblock{Other: "dos at byte 510"} }, nil, "Skipped: NotEmpty"},
	} {
		t.Run(name, func(t *testing.T) {
			inMountedBubble(t, func(e *env) {
				if err := e.records.Put(disk.Record{
					Identity: "wwn:a", Key: disk.Key{Class: "fast", Name: "a"}, HostPath: folder + "/a", Kind: disk.Device, Mode: disk.Filesystem, State: disk.Clean,
					Cluster: cluster, Generation: 7, Attachment: "boot1/diskseq:1", Formatting: &disk.Format{Type: "ext4", UUID: "begun"},
				}); err != nil {
					t.Fatal(err)
				}
				found := test.found(disk.Format{Type: "ext4", UUID: "begun"})
				e.disks.format("wwn:a", found)
				if !found.Blank() {
					e.disks.write("wwn:a", found.Holds())
				}
				e.disks.put(attached("a", "boot2"))
				e.start()
				e.pass(time.Minute)
				e.made(test.want...)
				e.expect("a", test.reason)
			})
		})
	}
}
