// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package requirements

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMissing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		use  Use
		user bool
		lack []string
		want string
	}{
		"nothing is missing": {use: E2E},
		"not root":           {use: Nodes, user: true, want: "nodes: root is needed"},
		"a package with several programs is named once": {
			use: Nodes, lack: []string{"runc", "containerd", "ctr", "/usr/lib/cni/bridge"},
			want: "nodes: /usr/lib/cni/bridge, containerd, ctr, runc not found: apt-get install containerd containernetworking-plugins runc",
		},
		"all that is wrong, in one error": {
			use: E2E, user: true, lack: []string{"ip", "docker-registry"},
			want: "e2e: root is needed\ne2e: docker-registry, ip not found: apt-get install docker-registry iproute2",
		},
		"the demo needs no registry":         {use: Nodes, lack: []string{"docker-registry"}},
		"end-to-end tests make no xfs":       {use: E2E, lack: []string{"mkfs.xfs"}},
		"tests of disks need no containerd":  {use: Disks, lack: []string{"containerd"}},
		"what tests of disks have none of":   {use: Disks, lack: []string{"mkfs.xfs"}, want: "disks: mkfs.xfs not found: apt-get install xfsprogs"},
		"a browser needs no root":            {use: Browser, user: true},
		"what real nodes and disks both use": {use: Disks, lack: []string{"mkfs.ext4"}, want: "disks: mkfs.ext4 not found: apt-get install e2fsprogs"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := missing(test.use, !test.user, func(program string) bool { return !slices.Contains(test.lack, program) }); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPackages: end-to-end tests need all that real nodes need, and the union of uses names
// each package once.
func TestPackages(t *testing.T) {
	t.Parallel()
	want := append(Packages(Nodes), "bindfs", "btrfs-progs", "docker-registry", "fuse3", "qemu-system-common", "qemu-utils", "rclone")
	slices.Sort(want)
	if diff := cmp.Diff(want, Packages(E2E)); diff != "" {
		t.Errorf("packages of end-to-end tests (-want +got):\n%s", diff)
	}
	all := Packages(Uses()...)
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("packages are not sorted, or one is there twice: %s", strings.Join(all, " "))
	}
}
