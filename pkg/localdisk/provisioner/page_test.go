// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/device/identity"
	"stowage.dev/stowage/pkg/localdisk/device/inventory"
	"stowage.dev/stowage/pkg/localdisk/device/usage"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/testing/sysfstree"
)

// TestPageSelects: of the disks of each platform, the class of docs/local-disks.md for it gets the
// local ones that are unused. No class gets a disk of another cloud.
func TestPageSelects(t *testing.T) {
	t.Parallel()
	for heading, want := range map[string]map[string][]string{
		"Servers": {"bare-metal": {"/dev/nvme0n1", "/dev/nvme1n1"}},
		"AWS":     {"ec2": {"/dev/nvme1n1"}, "gce": nil, "azure": nil, "bare-metal": nil},
		"Google":  {"gce": {"/dev/nvme1n1", "/dev/nvme2n1"}, "ec2": nil, "azure": nil, "bare-metal": nil},
		"Azure":   {"azure": {"/dev/nvme0n1"}, "ec2": nil, "gce": nil, "bare-metal": nil},
	} {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			devices := pageClass(t, heading).Devices
			rules := map[string]decide.DeviceRules{"local-nvme": {Include: deviceRules(devices.Include), Exclude: deviceRules(devices.Exclude)}}
			for tree, want := range want {
				got := slices.Sorted(maps.Values(decide.Select(decide.Selection{Devices: treeDevices(t, tree), Classes: rules}).Links))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("disks of %s (-want +got):\n%s", tree, diff)
				}
			}
		})
	}
}

// pageClass returns the class of the chart's values below a heading of the page.
func pageClass(t *testing.T, heading string) provisioner.Class {
	t.Helper()
	page, err := os.ReadFile("../../../docs/local-disks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### "+heading+"\n")
	_, block, _ := strings.Cut(section, "```yaml\n")
	block, _, _ = strings.Cut(block, "```\n")
	var values struct {
		Provisioner struct {
			Classes map[string]struct{ Settings map[string]any }
		}
	}
	if err := yaml.Unmarshal([]byte(block), &values); err != nil {
		t.Fatal(err)
	}
	classes, err := yaml.Marshal(map[string]any{"local-nvme": values.Provisioner.Classes["local-nvme"].Settings})
	if err != nil {
		t.Fatal(err)
	}
	config, err := provisioner.Decode(map[string]string{"storageClassMap": string(classes)})
	if err != nil {
		t.Fatalf("%s: %v", heading, err)
	}
	return config.Classes["local-nvme"]
}

// treeDevices returns the devices of a tree of sysfs.
func treeDevices(t *testing.T, name string) []disk.BlockDevice {
	t.Helper()
	root := sysfstree.Unpack(t, sysfstree.Read(t, "../device/inventory/testdata/"+name+".txtar"))
	sys := filepath.Join(root, "sys")
	finder, err := usage.New(usage.Config{
		Mountinfo: filepath.Join(root, "proc/1/mountinfo"), Swaps: filepath.Join(root, "proc/swaps"), Sys: sys, Dev: "/dev", KubeletDir: "/var/lib/kubelet",
	})
	if err != nil {
		t.Fatal(err)
	}
	devices, err := inventory.Reader{Dev: "/dev", Identities: identity.Host{Sys: sys, Machine: "m1"}, Usage: finder}.BlockDevices()
	if err != nil {
		t.Fatal(err)
	}
	return devices
}
