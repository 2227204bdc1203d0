// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "testing"

const fitSet = "testdata/fit/statefulset.yaml"

// TestFit: scores place each replica on one node only, so that the output does not change. The nodes differ in what
// they have allocatable.
func TestFit(t *testing.T) {
	for name, args := range map[string][]string{
		"statefulset":         {"-f", fitSet},
		"statefulset-fits":    {"-f", fitSet, "--replicas", "2"},
		"yaml":                {"-f", fitSet, "--replicas", "2", "-o", "yaml"},
		"deployment":          {"-f", "testdata/fit/deployment.yaml"},
		"claims-max":          {"--claims", "10Gi,5Gi:local-log", "--replicas", "max"},
		"claims-one-per-node": {"--claims", "10Gi", "--replicas", "4", "--one-per-node"},
		"provisioned":         {"--claims", "100Gi:lvm", "--replicas", "max"},
		"immediate":           {"--claims", "50Gi:shared"},
		"stock-scheduler":     {"--claims", "70Gi", "--scheduler-name", "default-scheduler"},
		"extender":            {"--claims", "70Gi", "--config", "testdata/fit/extender.yaml", "--scheduler-name", "default-scheduler"},
		"nothing":             {},
		"both":                {"-f", fitSet, "--claims", "10Gi"},
		"no-file":             {"-f", "testdata/fit/none.yaml"},
		"no-workload":         {"-f", "testdata/fit/cluster/nodes.yaml"},
		"no-replicas":         {"-f", fitSet, "--replicas", "0"},
		"no-size":             {"--claims", "local-disks:10Gi"},
		"unknown-class":       {"--claims", "10Gi:local-disk"},
		"unknown-scheduler":   {"--claims", "10Gi", "--scheduler-name", "volcano"},
		"another-namespace":   {"-f", fitSet, "-n", "web"},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, "fit/"+name, append([]string{"fit", "--from", "testdata/fit/cluster"}, args...)...)
		})
	}
}

// TestFitUnseen: files without pods and without capacities.
func TestFitUnseen(t *testing.T) {
	golden(t, "fit/unseen", "fit", "--from", "testdata/fit/cluster/volumes.yaml", "--claims", "10Gi:local-disks")
}
