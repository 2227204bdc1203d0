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

// conclude shows and checks how the story has ended.
func (d *demo) conclude(ctx context.Context) error {
	s, err := read(ctx, d.cluster.Client())
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nWho has what\n\n")
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
	d.say("%s", s.totals())
	return nil
}

// table prints one line per claim.
func (s state) table(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "%sPOD\tNODE\tZONE\tCLAIM\tVOLUME\tASKED\tGIVEN\n", indent)
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		node, zone := "(waits)", "-"
		if n := s.nodes[s.pods[name].Spec.NodeName]; n != nil {
			node, zone = n.Name, n.Labels[v1.LabelTopologyZone]
		}
		for _, claim := range claimsOf(s.pods[name]) {
			volume, given := "-", "-"
			if pv := s.volumeOf(claim); pv != nil {
				size := pv.Spec.Capacity[v1.ResourceStorage]
				volume, given = short(pv.Name), size.String()
			}
			asked := s.asked(claim)
			fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", indent, name, node, zone, claim, volume, asked.String(), given)
		}
	}
	return table.Flush()
}

// totals sums up a state that has been checked.
func (s state) totals() string {
	var asked, given resource.Quantity
	bound, placed := 0, 0
	for _, pod := range s.pods {
		if pod.Spec.NodeName != "" {
			placed++
		}
	}
	for claim := range s.claims {
		if pv := s.volumeOf(claim); pv != nil {
			bound++
			asked.Add(s.asked(claim))
			given.Add(pv.Spec.Capacity[v1.ResourceStorage])
		}
	}
	return fmt.Sprintf("%d pods run, %d waits. %d claims are bound: %s asked, %s given, no volume given twice.",
		placed, len(s.pods)-placed, bound, asked.String(), wholeGi(given))
}

// wholeGi rounds down: an ext4 has less than its device.
func wholeGi(size resource.Quantity) string { return fmt.Sprintf("%dGi", size.Value()>>30) }

// asked is what the claim asks for.
func (s state) asked(claim string) resource.Quantity {
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
