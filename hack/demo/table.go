// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// conclude prints and checks the outcome.
func (d *demo) conclude(ctx context.Context) error {
	s, err := read(ctx, d.cluster.Client())
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nResult\n\n")
	if err := s.table(d.out); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("the outcome is not as expected:\n%w", err)
	}
	metrics, err := d.scheduler.Get(ctx, "/metrics")
	if err != nil {
		return err
	}
	if err := checkDirect(metrics); err != nil {
		return err
	}
	fmt.Fprintln(d.out)
	d.print("%s", s.totals())
	return nil
}

// table prints one line per claim.
func (s state) table(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "%sPOD\tNODE\tZONE\tCLAIM\tVOLUME\tREQUESTED\tSIZE\n", indent)
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		node, zone := "(waits)", "-"
		if n := s.nodes[s.pods[name].Spec.NodeName]; n != nil {
			node, zone = n.Name, n.Labels[v1.LabelTopologyZone]
		}
		for _, claim := range claimsOf(s.pods[name]) {
			volume, capacity := "-", "-"
			if pv := s.volumeOf(claim); pv != nil {
				size := pv.Spec.Capacity[v1.ResourceStorage]
				volume, capacity = short(pv.Name), size.String()
			}
			requested := s.requested(claim)
			fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", indent, name, node, zone, claim, volume, requested.String(), capacity)
		}
	}
	return table.Flush()
}

// totals sums up a state that has been checked.
func (s state) totals() string {
	var requested, size resource.Quantity
	bound, placed := 0, 0
	for _, pod := range s.pods {
		if pod.Spec.NodeName != "" {
			placed++
		}
	}
	for claim := range s.claims {
		if pv := s.volumeOf(claim); pv != nil {
			bound++
			requested.Add(s.requested(claim))
			size.Add(pv.Spec.Capacity[v1.ResourceStorage])
		}
	}
	return fmt.Sprintf("%d pods run, %d waits. %d claims are bound: %s requested, %s bound, no volume bound twice.",
		placed, len(s.pods)-placed, bound, requested.String(), wholeGi(size))
}

// wholeGi rounds down: an ext4 has less than its device.
func wholeGi(size resource.Quantity) string { return fmt.Sprintf("%dGi", size.Value()>>30) }

// requested is the storage request of the claim.
func (s state) requested(claim string) resource.Quantity {
	if c := s.claims[claim]; c != nil {
		return c.Spec.Resources.Requests[v1.ResourceStorage]
	}
	return resource.Quantity{}
}

// volumeOf is the claim's volume, nil for none.
func (s state) volumeOf(claim string) *v1.PersistentVolume {
	if c := s.claims[claim]; c != nil {
		return s.volumes[c.Spec.VolumeName]
	}
	return nil
}
