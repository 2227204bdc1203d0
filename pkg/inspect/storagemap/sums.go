// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package storagemap

import (
	corev1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/pkg/apis/inspect/v1alpha1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
)

// Classes returns the sums of a map by node: the rows and the capacities that the map by class has.
func Classes(byNode *v1alpha1.StorageMap) ([]v1alpha1.StorageMapRow, []v1alpha1.StorageMapCapacity) {
	m := &mapper{Options: Options{By: ByClass}, rows: map[rowKey]*row{}, capacities: map[rowKey]*capacity{}}
	for i := range byNode.Rows {
		r := &byNode.Rows[i]
		sum(&m.row(r.StorageMapPlace, r.Class).StorageMapRow, r)
	}
	for _, from := range byNode.Capacities {
		c := m.capacityOf(from.StorageMapPlace, from.Class)
		if from.Bytes != nil {
			c.Bytes = sumOf(c.Bytes, *from.Bytes)
		}
		if from.LargestBytes != nil {
			c.LargestBytes = largestOf(c.LargestBytes, *from.LargestBytes)
		}
		add(&c.Provisioning, from.Provisioning)
	}
	return m.sortedRows(), m.sortedCapacities()
}

// Nodes returns all nodes, and those that only disks of a map name, in no order.
func Nodes(s *snapshot.Snapshot, disks []v1alpha1.StorageMapDisk) []v1alpha1.StorageMapPlace {
	var all []v1alpha1.StorageMapPlace
	known := map[string]bool{}
	for _, node := range snapshot.Of[*corev1.Node](s) {
		known[node.Name] = true
		all = append(all, v1alpha1.StorageMapPlace{Node: node.Name, Nodes: 1, Zone: node.Labels[corev1.LabelTopologyZone], NodeState: stateOf(node)})
	}
	missing := v1alpha1.NodeMissing
	if !snapshot.Complete[*corev1.Node](s) {
		missing = ""
	}
	for _, disk := range disks {
		if !known[disk.Node] {
			known[disk.Node] = true
			all = append(all, v1alpha1.StorageMapPlace{Node: disk.Node, Nodes: 1, NodeState: missing})
		}
	}
	return all
}
