// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/testing/sysfstree"

	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/integration/node"
)

// TestListDisks: the disks of a tree of sysfs become LocalDisks, under the rights and policies of
// the manifests, and a restart writes only those that have changed.
func TestListDisks(t *testing.T) {
	n := newNode(t)
	root := sysfstree.Unpack(t, sysfstree.Read(t, "../../../pkg/localdisk/device/inventory/testdata/bare-metal.txtar"))
	n.Args = append(n.Args, "--host-sys="+filepath.Join(root, "sys"))
	n.Configure(func(data map[string]any) { data["listDisks"] = "true" })
	n.Start()
	// The devices do not exist on this machine, so none is eligible.
	written := map[string]string{} // resourceVersions, by name
	for slot, device := range []string{"/dev/nvme0n1", "/dev/nvme1n1", "/dev/sda", "/dev/sdb"} {
		d := waitDisk(t, n, slot, func(d *stowage.LocalDisk) bool { return d != nil && d.Status.State == stowage.LocalDiskIneligible })
		if owners := d.OwnerReferences; d.Status.Device != device || len(owners) != 1 || owners[0].Kind != "Node" || owners[0].Name != n.Name {
			t.Errorf("%s is %s with owners %+v, want %s and the Node", d.Name, d.Status.Device, owners, device)
		}
		written[d.Name] = d.ResourceVersion
	}
	n.Stop()
	if err := os.WriteFile(filepath.Join(root, "sys/class/block/sdb/ro"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Start()
	failing := waitDisk(t, n, 3, func(d *stowage.LocalDisk) bool { return d != nil && d.Status.Reason == string(disk.DeviceReadOnly) })
	delete(written, failing.Name)
	for selector, want := range map[string]map[string]string{
		"status.health=Healthy": written, "status.health=Failing": {failing.Name: failing.ResourceVersion},
	} {
		list, err := diskClient(t, n).List(t.Context(), metav1.ListOptions{FieldSelector: selector + ",spec.nodeName=" + n.Name})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for i := range list.Items {
			got[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s after the restart (-want +got):\n%s", selector, diff)
		}
	}
}

func diskClient(t *testing.T, n *node.Node) *diskreports.DiskClient {
	t.Helper()
	client, err := diskreports.NewDiskClient(n.Env.Cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// waitDisk waits until is accepts the disk of a slot, and returns it.
func waitDisk(t *testing.T, n *node.Node, slot int, is func(*stowage.LocalDisk) bool) *stowage.LocalDisk {
	t.Helper()
	ctx, cancel := context.WithTimeout(n.Env.Context(), n.Env.Timeout)
	defer cancel()
	name := stowage.LocalDiskName(n.Name, slot)
	d, err := await.Object(ctx, diskClient(t, n), name, is)
	if err != nil {
		t.Fatalf("wait for LocalDisk %s: %v; it is %+v", name, err, d)
	}
	return d
}
