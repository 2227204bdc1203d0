// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/localdisk/disk"
)

type claim struct {
	node   func(w *fakeNode)
	fact   disk.Fact
	volume string
	want   []string
}

func (c claim) check(t *testing.T) {
	w := newFakeNode(t)
	if c.node != nil {
		c.node(w)
	}
	got, err := w.survey().BlockingUsers(c.fact, c.volume)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.want, words(got)); diff != "" {
		t.Errorf("claimed by (-want +got):\n%s", diff)
	}
}

const kubelet = "/var/lib/kubelet"

func TestBlockingUsersOfADevice(t *testing.T) {
	cases := map[string]claim{
		"a disk with nothing on it is free": {fact: deviceFact("8:16")},
		"a disk is claimed by its mount": {
			node: func(w *fakeNode) { w.mount("8:16", "/", "/srv", "ext4 /dev/sdb") },
			fact: deviceFact("8:16"), want: []string{"mount /srv"},
		},
		"a disk is claimed by a mount in the discovery directory, which is the same bytes": {
			node: func(w *fakeNode) { w.mount("8:16", "/", "/mnt/disks/b", "ext4 /dev/sdb") },
			fact: deviceFact("8:16"), want: []string{"mount /mnt/disks/b"},
		},
		"a disk is not claimed by kubelet's mounts of its own volume": {
			node: func(w *fakeNode) {
				w.mount("8:16", "/", kubelet+"/plugins/kubernetes.io/local-volume/mounts/pv-1", "ext4 /dev/sdb")
				w.mount("8:16", "/", kubelet+"/pods/1/volumes/kubernetes.io~local-volume/pv-1", "ext4 /dev/sdb")
				w.mount("8:16", "/sub", kubelet+"/pods/1/volume-subpaths/pv-1/c/0", "ext4 /dev/sdb")
				w.mount("0:6", "/sdb", kubelet+"/plugins/kubernetes.io~local-volume/volumeDevices/pv-1/uid", "devtmpfs devtmpfs")
				w.loop("loop0", "7:0", kubelet+"/plugins/kubernetes.io~local-volume/volumeDevices/pv-1/uid")
			},
			fact: deviceFact("8:16"), volume: "pv-1",
		},
		"a disk is claimed by kubelet's mounts of another volume, whose name begins with this one's": {
			node: func(w *fakeNode) {
				w.mount("8:16", "/", kubelet+"/plugins/kubernetes.io/local-volume/mounts/pv-10", "ext4 /dev/sdb")
			},
			fact: deviceFact("8:16"), volume: "pv-1",
			want: []string{"mount " + kubelet + "/plugins/kubernetes.io/local-volume/mounts/pv-10"},
		},
		"a disk is not claimed by the provisioner's mount of its own volume": {
			node: func(w *fakeNode) { w.mount("8:16", "/", disk.MountFolder+"/fast/pv-1", "ext4 /dev/sdb") },
			fact: deviceFact("8:16"), volume: "pv-1",
		},
		"a disk is claimed by the provisioner's mount of another volume": {
			node: func(w *fakeNode) { w.mount("8:16", "/", disk.MountFolder+"/fast/pv-10", "ext4 /dev/sdb") },
			fact: deviceFact("8:16"), volume: "pv-1", want: []string{"mount " + disk.MountFolder + "/fast/pv-10"},
		},
		"a raw device that kubelet gives to a pod as another's volume claims it": {
			node: func(w *fakeNode) {
				w.mount("0:6", "/sdb", kubelet+"/plugins/kubernetes.io~local-volume/volumeDevices/old/uid", "devtmpfs devtmpfs")
				w.loop("loop0", "7:0", kubelet+"/plugins/kubernetes.io~local-volume/volumeDevices/old/uid")
			},
			fact: deviceFact("8:16"), volume: "pv-1",
			want: []string{"loop device /dev/loop0", "mount " + kubelet + "/plugins/kubernetes.io~local-volume/volumeDevices/old/uid"},
		},
		"a disk is claimed by swap": {
			node: func(w *fakeNode) { w.swap("/dev/sdb", "partition") },
			fact: deviceFact("8:16"), want: []string{"swap /dev/sdb"},
		},
		"a disk is claimed by device mapper": {
			node: func(w *fakeNode) { w.holder("dm-0", "253:0", "sdb") },
			fact: deviceFact("8:16"), want: []string{"holder /dev/dm-0"},
		},
		"a disk is claimed by a loop device": {
			node: func(w *fakeNode) { w.loop("loop0", "7:0", "/dev/sdb") },
			fact: deviceFact("8:16"), want: []string{"loop device /dev/loop0"},
		},
		"a disk is claimed by btrfs, whichever of its devices the mount names": {
			node: func(w *fakeNode) {
				w.disk("sdd", "8:48")
				w.mount("0:44", "/subvolume", "/srv", "btrfs /dev/sdd")
				w.pool("6f-1", "sdd", "sdb")
			},
			fact: deviceFact("8:16"), want: []string{"mount /srv"},
		},
		"a disk is claimed by bcachefs, which names all its devices": {
			node: func(w *fakeNode) { w.mount("0:44", "/", "/srv", "bcachefs /dev/sda9:/dev/sdb") },
			fact: deviceFact("8:16"), want: []string{"mount /srv"},
		},
		"a mount in memory whose source names the device claims it": {
			node: func(w *fakeNode) {
				w.mount("0:44", "/", "/srv", "zfs /dev/mapper/mapped-dm-0")
				w.holder("dm-0", "253:0", "sdb")
			},
			fact: deviceFact("253:0"), want: []string{"mount /srv"},
		},
	}
	for name, c := range cases {
		t.Run(name, c.check)
	}
}

func TestBlockingUsersOfItsDisk(t *testing.T) {
	cases := map[string]claim{
		"the root disk": {fact: deviceFact("8:0"), want: []string{"mount /", "mount /boot"}},
		"a partition of the root disk": {
			node: func(w *fakeNode) {
				w.disk("nvme0n1", "259:0", "259:1", "259:2")
				w.mount("259:1", "/", "/usr", "ext4 /dev/x")
			},
			fact: deviceFact("259:2"), want: []string{"mount /usr"},
		},
		"a partition beside a logical volume that the root is on": {
			node: func(w *fakeNode) {
				w.holder("dm-0", "253:0", "sdc1")
				w.holder("dm-1", "253:1", "dm-0")
				w.lines[0] = "20 1 253:1 / / rw - xfs /dev/mapper/root rw"
				w.lines[1] = "21 20 253:1 /boot /boot rw - xfs /dev/mapper/root rw"
			},
			fact: deviceFact("8:34"), want: []string{"holder /dev/dm-0", "mount /", "mount /boot"},
		},
		"a disk that half of the root's mirror is on": {
			node: func(w *fakeNode) {
				w.holder("md0", "9:0", "sdb", "sdc1")
				w.mount("9:0", "/", "/var", "ext4 /dev/md0")
			},
			fact: deviceFact("8:16"), want: []string{"holder /dev/md0", "mount /var"},
		},
		"the disk that kubelet's folder is mounted from": {
			node: func(w *fakeNode) { w.mount("8:33", "/", kubelet, "ext4 /dev/sdc1") },
			fact: deviceFact("8:34"), want: []string{"mount " + kubelet},
		},
		"the disk that the discovery directory is mounted from": {
			node: func(w *fakeNode) { w.mount("8:33", "/", "/mnt/disks", "ext4 /dev/sdc1") },
			fact: deviceFact("8:34"), want: []string{"mount /mnt/disks"},
		},
		"a disk with a mounted partition": {
			node: func(w *fakeNode) { w.mount("8:33", "/", "/mnt/disks/b", "ext4 /dev/sdc1") },
			fact: deviceFact("8:32"), want: []string{"mount /mnt/disks/b"},
		},
		"a disk with a partition that is held": {
			node: func(w *fakeNode) { w.holder("dm-0", "253:0", "sdc2") },
			fact: deviceFact("8:32"), want: []string{"holder /dev/dm-0"},
		},
		"a disk with a held partition, by what is mounted far above it": {
			node: func(w *fakeNode) {
				w.holder("dm-0", "253:0", "sdc2")
				w.holder("dm-1", "253:1", "dm-0")
				w.mount("253:1", "/", "/mnt/disks/b", "ext4 /dev/mapper/x")
			},
			fact: deviceFact("8:32"), want: []string{"holder /dev/dm-0", "holder /dev/dm-1", "mount /mnt/disks/b"},
		},
		"a partition of a disk that is held as a whole": {
			node: func(w *fakeNode) { w.holder("dm-0", "253:0", "sdc") },
			fact: deviceFact("8:33"), want: []string{"holder /dev/dm-0"},
		},
		"a partition of a disk that is mounted as a whole": {
			node: func(w *fakeNode) { w.mount("8:32", "/", "/mnt/disks/b", "ext4 /dev/sdc") },
			fact: deviceFact("8:33"), want: []string{"mount /mnt/disks/b"},
		},
		"a loop device over a device that is mounted": {
			node: func(w *fakeNode) {
				w.loop("loop0", "7:0", "/dev/sdb")
				w.mount("8:16", "/", "/mnt/disks/b", "ext4 /dev/sdb")
			},
			fact: deviceFact("7:0"), want: []string{"mount /mnt/disks/b"},
		},
	}
	for name, c := range cases {
		t.Run(name, c.check)
	}
}

func TestBlockingUsersBesideADevice(t *testing.T) {
	cases := map[string]claim{
		"a partition beside one that the host has mounted": {
			node: func(w *fakeNode) { w.mount("8:33", "/", "/srv", "ext4 /dev/sdc1") },
			fact: deviceFact("8:34"), want: []string{"mount /srv"},
		},
		"a partition beside one that is swap": {
			node: func(w *fakeNode) { w.swap("/dev/sdc1", "partition") },
			fact: deviceFact("8:34"), want: []string{"swap /dev/sdc1"},
		},
		"a partition beside one that is held": {
			node: func(w *fakeNode) { w.holder("dm-0", "253:0", "sdc1") },
			fact: deviceFact("8:34"), want: []string{"holder /dev/dm-0"},
		},
		"a partition beside one that a loop device is attached to": {
			node: func(w *fakeNode) { w.loop("loop0", "7:0", "/dev/sdc1") },
			fact: deviceFact("8:34"), want: []string{"loop device /dev/loop0"},
		},
		"a partition beside one that is a volume by its mount is free": {
			node: func(w *fakeNode) { w.mount("8:33", "/", "/mnt/disks/b", "ext4 /dev/sdc1") },
			fact: deviceFact("8:34"),
		},
		"a partition beside those that kubelet uses as volumes is free": {
			node: func(w *fakeNode) {
				w.mount("8:33", "/", kubelet+"/plugins/kubernetes.io/local-volume/mounts/x", "ext4 /dev/sdc1")
				w.mount("8:33", "/", kubelet+"/pods/1/volumes/kubernetes.io~local-volume/x", "ext4 /dev/sdc1")
				w.mount("0:6", "/sdc3", kubelet+"/plugins/kubernetes.io~local-volume/volumeDevices/y/uid", "devtmpfs devtmpfs")
				w.loop("loop0", "7:0", kubelet+"/plugins/kubernetes.io~local-volume/volumeDevices/y/uid")
			},
			fact: deviceFact("8:34"),
		},
		"a partition beside one that the provisioner has mounted is free": {
			node: func(w *fakeNode) { w.mount("8:33", "/", disk.MountFolder+"/fast/pv-1", "ext4 /dev/sdc1") },
			fact: deviceFact("8:34"),
		},
		"a logical volume beside one that is a volume is free": {
			node: func(w *fakeNode) {
				w.holder("dm-0", "253:0", "sdb", "sdc1")
				w.holder("dm-1", "253:1", "sdb")
				w.mount("253:0", "/", "/mnt/disks/b", "ext4 /dev/dm-0")
			},
			fact: deviceFact("253:1"),
		},
		"a logical volume beside one that the host has mounted": {
			node: func(w *fakeNode) {
				w.holder("dm-0", "253:0", "sdb")
				w.holder("dm-1", "253:1", "sdb")
				w.mount("253:0", "/", "/srv", "ext4 /dev/dm-0")
			},
			fact: deviceFact("253:1"), want: []string{"mount /srv"},
		},
		"a loop device over a file of the root file system is free": {
			node: func(w *fakeNode) { w.loop("loop0", "7:0", "/var/images/a") },
			fact: deviceFact("7:0"),
		},
	}
	for name, c := range cases {
		t.Run(name, c.check)
	}
}

func TestBlockingUsersOfAFilesystem(t *testing.T) {
	here := func(w *fakeNode) { w.mount("8:16", "/", "/mnt/disks/a", "ext4 /dev/sdb") }
	fact := mountFact("8:16", "/")
	cases := map[string]claim{
		"a mount of its own is free": {node: here, fact: fact},
		"a mount that the host has elsewhere too": {
			node: func(w *fakeNode) { here(w); w.mount("8:16", "/", "/srv", "ext4 /dev/sdb") },
			fact: fact, want: []string{"mount /srv"},
		},
		"a mount of which the host has a folder elsewhere": {
			node: func(w *fakeNode) { here(w); w.mount("8:16", "/x", "/srv", "ext4 /dev/sdb") },
			fact: fact, want: []string{"mount /srv"},
		},
		"a second path in the discovery directory is for those who look for the same bytes": {
			node: func(w *fakeNode) { here(w); w.mount("8:16", "/", "/mnt/disks/b", "ext4 /dev/sdb") },
			fact: fact,
		},
		"kubelet's mounts of its own volume, a pod's loop devices and its swap are no reason": {
			node: func(w *fakeNode) {
				here(w)
				w.mount("8:16", "/", kubelet+"/pods/1/volumes/kubernetes.io~local-volume/pv-1", "ext4 /dev/sdb")
				w.loop("loop0", "7:0", "/mnt/disks/a/image")
				w.swap("/mnt/disks/a/swap", "file")
			},
			fact: fact, volume: "pv-1",
		},
		"a loop device and swap of the host, before there is a volume": {
			node: func(w *fakeNode) {
				here(w)
				w.loop("loop0", "7:0", "/mnt/disks/a/image")
				w.swap("/mnt/disks/a/swap", "file")
			},
			fact: fact, want: []string{"loop device /dev/loop0", "swap /mnt/disks/a/swap"},
		},
		"containers of the host that have their layers on it": {
			node: func(w *fakeNode) {
				here(w)
				w.lines = append(w.lines,
					`90 20 0:70 / /run/c1 rw - overlay overlay rw,lowerdir=/l:/mnt/disks/a/l,upperdir=/u,workdir=/w`,
					`91 20 0:71 / /run/c2 rw - overlay overlay rw,lowerdir+=/mnt/disks/a\040b,upperdir=/mnt/disks/ab,workdir=/w`,
					`92 20 0:72 / /run/c3 rw - overlay overlay rw,lowerdir+=/mnt/disks/a/l\040m`)
			},
			fact: fact, want: []string{"mount /run/c1", "mount /run/c3"},
		},
		"a device that a loop device is attached to beside the mount": {
			node: func(w *fakeNode) { here(w); w.loop("loop0", "7:0", "/dev/sdb") },
			fact: fact, want: []string{"loop device /dev/loop0"},
		},
		"a folder of a file system that the host uses is free": {
			node: func(w *fakeNode) { w.mount("8:1", "/volumes/a", "/mnt/disks/a", "ext4 /dev/sda1") },
			fact: mountFact("8:1", "/volumes/a"),
		},
		"the root file system, bind-mounted": {
			node: func(w *fakeNode) { w.mount("8:1", "/", "/mnt/disks/a", "ext4 /dev/sda1") },
			fact: mountFact("8:1", "/"), want: []string{"mount /"},
		},
		"a folder that has kubelet's in it, bind-mounted": {
			node: func(w *fakeNode) { w.mount("8:1", "/var/lib", "/mnt/disks/a", "ext4 /dev/sda1") },
			fact: mountFact("8:1", "/var/lib"), want: []string{"mount /var/lib/kubelet"},
		},
		"a directory is free": {fact: mountFact("8:1", "/mnt/disks/a")},
		"a directory that the host has mounted elsewhere": {
			node: func(w *fakeNode) { w.mount("8:1", "/mnt/disks/a", "/srv", "ext4 /dev/sda1") },
			fact: mountFact("8:1", "/mnt/disks/a"), want: []string{"mount /srv"},
		},
	}
	for name, c := range cases {
		t.Run(name, c.check)
	}
}
