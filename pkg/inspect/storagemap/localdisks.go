// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package storagemap

import (
	"slices"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// LocalDisks returns the query for the LocalDisks of a node, or of all nodes if it is empty. They are not among Kinds: a
// cluster may have tens of thousands, which a watch would keep.
func LocalDisks(node string) snapshot.Query {
	q := snapshot.Query{Kind: snapshot.KindOf[*stowage.LocalDisk]()}
	if node != "" {
		q.Fields = "spec.nodeName=" + node
	}
	return q
}

// localDisks sums the LocalDisks that no class has. A map of one class has none.
func (m *mapper) localDisks() []v1alpha1.StorageMapLocalDisks {
	sums, nodes := map[rowKey]*v1alpha1.StorageMapLocalDisks{}, map[rowKey]map[string]bool{}
	for _, d := range snapshot.Of[*stowage.LocalDisk](m.s) {
		node := d.Spec.NodeName
		if d.Status.State == "" || d.Status.State == stowage.LocalDiskAssigned || m.Class != "" || !m.selects(node, "") {
			continue
		}
		key := m.key(m.places.ofNode(node), "")
		if sums[key] == nil {
			sums[key], nodes[key] = &v1alpha1.StorageMapLocalDisks{StorageMapPlace: key.StorageMapPlace}, map[string]bool{}
		}
		sum := sums[key]
		switch d.Status.State {
		case stowage.LocalDiskEligible:
			sum.Eligible++
			sum.EligibleBytes += d.Status.Bytes
			sum.LargestEligibleBytes = max(sum.LargestEligibleBytes, d.Status.Bytes)
		case stowage.LocalDiskMissing:
			sum.Missing++
		default:
			sum.Ineligible++
		}
		switch d.Status.Health {
		case stowage.LocalDiskDegraded:
			sum.Degraded++
		case stowage.LocalDiskFailing:
			sum.Failing++
		}
		if nodes[key][node] = true; m.By != ByNode {
			sum.Nodes = len(nodes[key])
		}
	}
	var all []v1alpha1.StorageMapLocalDisks
	for _, sum := range sums {
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b v1alpha1.StorageMapLocalDisks) int {
		return comparePlaces(a.StorageMapPlace, b.StorageMapPlace)
	})
	return all
}
