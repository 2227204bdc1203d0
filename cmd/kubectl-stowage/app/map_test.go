// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
)

const storageCluster = "testdata/map/cluster"

func TestMap(t *testing.T) {
	for name, args := range map[string][]string{
		"by-node":       {},
		"by-zone":       {"--by", "zone"},
		"by-class":      {"--by", "class"},
		"wide":          {"-o", "wide"},
		"yaml":          {"-o", "yaml", "--node", "node-a"},
		"one-class":     {"--class", "local-log"},
		"one-namespace": {"-n", "web", "--node", "node-a"},
		"unknown-class": {"--class", "local-disk"},
		"unknown-node":  {"--node", "worker"},
		"unknown-by":    {"--by", "rack"},
		"watch-files":   {"--watch"},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, "map/"+name, append([]string{"map", "--from", storageCluster}, args...)...)
		})
	}
}

// TestMapOfManyNodes: the sums of zones, and the nodes with the least and the most free storage.
func TestMapOfManyNodes(t *testing.T) {
	var text strings.Builder
	for n := range 60 {
		fmt.Fprintf(&text, `---
apiVersion: v1
kind: Node
metadata: {name: node-%02[1]d, labels: {kubernetes.io/hostname: node-%02[1]d, topology.kubernetes.io/zone: zone-%[2]d}}
`, n, n%3)
		for v := range 4 {
			phase := "Bound"
			if v < n%5 {
				phase = "Available"
			}
			fmt.Fprintf(&text, `---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-%02[1]d-%[2]d}
spec:
  capacity: {storage: 100Gi}
  storageClassName: local
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-%02[1]d]}]}]}}
status: {phase: %[3]s}
`, n, v, phase)
		}
	}
	golden(t, "map/many-nodes", "map", "--from", file(t, "cluster.yaml", text.String()))
}

func TestBar(t *testing.T) {
	t.Parallel()
	row := func(bound, reserved, cleaning, other, free int64) *v1alpha1.StorageMapRow {
		of := func(bytes int64) v1alpha1.StorageMapAmount {
			if bytes == 0 {
				return v1alpha1.StorageMapAmount{}
			}
			return v1alpha1.StorageMapAmount{Volumes: 1, Bytes: bytes}
		}
		return &v1alpha1.StorageMapRow{Bound: of(bound), Reserved: of(reserved), Cleaning: of(cleaning), Other: of(other), Free: of(free), Total: of(bound + reserved + cleaning + other + free)}
	}
	ascii := symbolsOf(func(string) string { return "C" })
	for want, r := range map[string]*v1alpha1.StorageMapRow{
		"":             row(0, 0, 0, 0, 0),
		"[##########]": row(10, 0, 0, 0, 0),
		"[#####.....]": row(1, 0, 0, 0, 1),
		"[######=~x.]": row(1000000, 1, 1, 1, 1), // none is left out
	} {
		if got := ascii.bar(r, 12); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := symbolsOf(func(name string) string { return map[string]string{"LANG": "de_DE.utf8"}[name] }).bar(row(1, 0, 0, 0, 1), 4); got != "██░░" {
		t.Errorf("UTF-8: got %q", got)
	}
}
