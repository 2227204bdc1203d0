// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestDevices(t *testing.T) {
	t.Parallel()
	config, err := Decode(classMap(`
fast:
  devices:
    include:
    - {transport: nvme, rotational: false, minSize: 100Gi, maxSize: 4Ti, model: "SAMSUNG*", path: "/dev/disk/by-id/nvme-*"}
    - {transport: sata}
    exclude: [{serial: "S5GX*"}]
    nodeSelector: {disks: "yes"}
    max: 8
  existingData: AssumeBlank
  fsType: xfs
`))
	if err != nil {
		t.Fatal(err)
	}
	got := config.Classes["fast"]
	if got.HostDir != "/dev/stowage/devices/fast" || got.MountDir != got.HostDir {
		t.Errorf("the folder is %s, mounted at %s", got.HostDir, got.MountDir)
	}
	want := &Devices{
		Include: []DeviceRule{
			{Transport: "nvme", Rotational: new(false), MinSize: new(resource.MustParse("100Gi")), MaxSize: new(resource.MustParse("4Ti")), Model: "SAMSUNG*", Path: "/dev/disk/by-id/nvme-*"},
			{Transport: "sata"},
		},
		Exclude: []DeviceRule{{Serial: "S5GX*"}}, NodeSelector: map[string]string{"disks": "yes"}, Max: new(int32(8)),
	}
	if diff := cmp.Diff(want, got.Devices); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for labels, want := range map[string]bool{"yes": true, "no": false} {
		if got := got.Devices.Selects(map[string]string{"disks": labels, "other": "x"}); got != want {
			t.Errorf("a node with disks=%s is selected: %t", labels, got)
		}
	}
	if got.Devices.Selects(nil) {
		t.Error("a node without labels is selected")
	}
}

// TestRefuseDevices: errors in a class whose rules are otherwise valid.
func TestRefuseDevices(t *testing.T) {
	t.Parallel()
	const (
		conditions = "transport, rotational, minSize, maxSize, model, serial, path"
		absent     = ": Forbidden: must be absent with devices, which selects disks and no folder"
	)
	for name, tc := range map[string]struct {
		devices, class string
		want           string
	}{
		"no rule":                     {devices: "{max: 1}", want: "devices.include: Required value: must have at least one rule: without one, no disk is selected"},
		"rules without a list":        {devices: "{include: {transport: nvme}}", want: "devices.include: Invalid value: must be a list, each item on a line of its own after a dash"},
		"a rule without a condition":  {devices: "{include: [{}]}", want: "devices.include[0]: Required value: must have at least one condition: " + conditions},
		"an exclude without one":      {devices: "{include: [{model: a}], exclude: [{}]}", want: "devices.exclude[0]: Required value: must have at least one condition: " + conditions},
		"an unknown key":              {devices: "{include: [{model: a}], only: []}", want: "devices.only: Forbidden: unknown key: allowed are include, exclude, nodeSelector, max"},
		"an unknown condition":        {devices: "{include: [{model: a, vendor: b}]}", want: "devices.include[0].vendor: Forbidden: unknown key: allowed are " + conditions},
		"a condition in another case": {devices: "{include: [{model: a, minsize: 1}]}", want: "devices.include[0].minsize: Forbidden: unknown key: write minSize"},
		"an unknown transport":        {devices: "{include: [{transport: iscsi}]}", want: `devices.include[0].transport: Unsupported value: "iscsi": supported values: "mmc", "nvme", "other", "sas", "sata", "scsi", "usb", "virtio", "vmbus", "xen"`},
		"rotational in words":         {devices: "{include: [{rotational: never}]}", want: `devices.include[0].rotational: Invalid value: "never": must be true or false`},
		"a size in words":             {devices: "{include: [{minSize: big}]}", want: `devices.include[0].minSize: Invalid value: "big": must be a number of bytes, such as 200Mi`},
		"no size":                     {devices: "{include: [{maxSize: 0}]}", want: `devices.include[0].maxSize: Invalid value: "0": must be more than 0 bytes`},
		"sizes that exclude another":  {devices: "{include: [{minSize: 2Gi, maxSize: 1Gi}]}", want: `devices.include[0].maxSize: Invalid value: "1Gi": must be at least minSize, 2Gi: no disk has both`},
		"a bad glob":                  {devices: "{include: [{model: '[a'}]}", want: `devices.include[0].model: Invalid value: "[a": must be a glob: a [ must have its ], and a \ something after it`},
		"a serial number as a number": {devices: "{include: [{serial: 12}]}", want: "devices.include[0].serial: Invalid value: 12: must be a string: put it in quotes"},
		"a path elsewhere":            {devices: "{include: [{path: nvme*}]}", want: `devices.include[0].path: Invalid value: "nvme*": must begin with /dev/`},
		"a label that is none":        {devices: "{include: [{model: a}], nodeSelector: {a: '-'}}", want: `devices.nodeSelector[a]: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		"a label that YAML changes":   {devices: "{include: [{model: a}], nodeSelector: {a: yes}}", want: "devices.nodeSelector[a]: Invalid value: true: must be a string: put it in quotes"},
		"no disk at most":             {devices: "{include: [{model: a}], max: 0}", want: "devices.max: Invalid value: 0: must be 1 to 256"},
		"a folder too":                {class: "hostDir: /mnt/fast", want: "hostDir" + absent},
		"another mount":               {class: "mountDir: /mnt/fast", want: "mountDir" + absent},
		"names":                       {class: "namePattern: nvme*", want: "namePattern" + absent},
		"directories":                 {class: "{allowDirectories: true, directoryPattern: a}", want: "allowDirectories" + absent},
		"a cleaner of files":          {class: "fsCleanerCommand: [/opt/clean]", want: "fsCleanerCommand" + absent},
		"data that is published":      {class: "existingData: Publish", want: `existingData: Unsupported value: "Publish": supported values: "Refuse", "AssumeBlank"`},
		"data that is cleaned":        {class: "existingData: Clean", want: `existingData: Unsupported value: "Clean": supported values: "Refuse", "AssumeBlank"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			devices := tc.devices
			if devices == "" {
				devices = "{include: [{transport: nvme}]}"
			}
			body := "{devices: " + devices + "}"
			if tc.class != "" {
				body = "{devices: " + devices + ", " + strings.Trim(tc.class, "{}") + "}"
			}
			if diff := cmp.Diff([]string{"storageClassMap[fast]." + tc.want}, refused(t, classMap("fast: "+body))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
