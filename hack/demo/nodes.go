// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	v1 "k8s.io/api/core/v1"
)

// tellNodes makes nodes, and volumes that each only its node can use.
func tellNodes(ctx context.Context, d *demo) error {
	list, err := load("nodes.yaml")
	if err != nil {
		return err
	}
	nodes, _ := split[*v1.Node](list)
	if err := d.cluster.AddNodes(ctx, nodes...); err != nil {
		return err
	}
	if list, err = load("volumes.yaml"); err != nil {
		return err
	}
	if err := d.createAll(ctx, list); err != nil {
		return err
	}
	volumes, _ := split[*v1.PersistentVolume](list)
	table := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	for _, node := range nodes {
		var names []string
		for _, pv := range volumes {
			if reaches(pv, node) {
				names = append(names, pv.Name)
			}
		}
		fmt.Fprintf(table, "%s%s\tzone %s\t%s\n", indent, node.Name, node.Labels[v1.LabelTopologyZone], strings.Join(names, "  "))
	}
	return table.Flush()
}
