// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhyStorage(t *testing.T) {
	for name, args := range map[string]string{
		"pvc-bound":        "pvc data-db-0 -n db",
		"pvc-failing-disk": "pvc/data-db-1 -n db",
		"pvc-reserved":     "persistentvolumeclaim data-db-2 -n db",
		"pvc-node-down":    "pvc data-db-3 -n db",
		"pvc-node-lost":    "pvc data-db-4 -n db",
		"pvc-too-large":    "pvc data-db-5 -n db",
		"pvc-lost":         "pvc data-lost -n db",
		"pvc-unused":       "pvc unused -n web",
		"pvc-pav":          "pvc cache -n web",
		"pvc-no-class":     "pvc typo -n web",
		"pvc-unknown":      "pvc data-db-9 -n db",
		"pvc-namespace":    "pvc unused",
		"pv-cleaning":      "pv local-pv-node-a-003",
		"pv-retained":      "pv local-pv-node-b-003",
		"pv-in-use":        "pv local-pv-node-b-004",
		"disk-cleaning":    "disk node-a/disk-3 -o yaml",
		"disk-failing":     "disk node-b/local-disks/disk-1",
		"disk-in-use":      "disk node-a//mnt/local-disks/sdz",
		"disk-unknown":     "disk node-a/sdy",
		"local-assigned":   "disk/node-a.00",
		"local-contested":  "disk node-a.03",
		"local-degraded":   "disk node-b.02",
		"local-eligible":   "localdisk node-a.01",
		"local-in-use":     "ld/node-a.02",
		"local-missing":    "disk node-b.00",
		"local-unknown":    "disk node-a.0f",
		"node":             "node node-a",
		"node-down":        "no/node-c",
		"node-gone":        "node node-x",
		"node-tombstones":  "node node-y",
		"pv-tombstone":     "pv local-pv-node-y-001",
		"kind-unknown":     "configmap x",
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, "why/"+name, append([]string{"why", "--from", storageCluster}, strings.Fields(args)...)...)
		})
	}
}

func TestWhyArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][3]string{
		"db-0":              {"pod", "db-0", ""},
		"pod/db-0":          {"pod", "db-0", ""},
		"PVC data":          {"pvc", "data", ""},
		"disk n/c/d":        {"disk", "n/c/d", ""},
		"disk/n/c/d":        {"disk", "n/c/d", ""},
		"LocalDisk/n.00":    {"disk", "n.00", ""},
		"pods db-0":         {"pod", "db-0", ""},
		"":                  {"", "", "why: the object is missing: kubectl stowage why [pod|pvc|pv|disk|node] NAME"},
		"pvc":               {"", "", "why pvc: the name is missing: kubectl stowage why pvc NAME"},
		"pvc/":              {"", "", "why pvc: the name is missing: kubectl stowage why pvc NAME"},
		"secret x":          {"", "", `why: kind "secret" is unknown; known are pod, pvc, pv, disk and node`},
		"pvc one and other": {"", "", "why: one object at a time: pvc one and other are too many arguments"},
	} {
		kind, name, err := whyArguments(strings.Fields(args))
		got := [3]string{"", name, ""}
		if err != nil {
			got[2] = err.Error()
		} else {
			got[0] = kind.names[0]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", args, diff)
		}
	}
}
