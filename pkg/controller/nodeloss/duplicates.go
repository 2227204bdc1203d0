// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/loop"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	eventDuplicate  = "DuplicateIdentity"
	actionDuplicate = "CompareDisks"
)

// suspect notes identities whose reports have changed, and requests a sweep if several nodes
// report, or reported, one of them.
func (c *Controller) suspect(identities []string) {
	for _, identity := range identities {
		keys, err := c.ReportInformer.GetIndexer().IndexKeys(byIdentity, identity)
		c.mu.Lock()
		_, known := c.duplicates[identity]
		several := err == nil && len(keys) > 1 || known
		if several {
			c.suspects[identity] = true
		}
		c.mu.Unlock()
		if several {
			c.requestSweep()
		}
	}
}

// reportDuplicates records an event on every node that reports an identity which another existing
// node reports too: a cloned disk, a disk attached to several nodes, or a wrong report. Until that
// is fixed, no volume of the disk gets a tombstone; see otherUse.
func (c *Controller) reportDuplicates() {
	c.mu.Lock()
	suspects := c.suspects
	c.suspects = map[string]bool{}
	c.mu.Unlock()
	for identity := range suspects {
		nodes := c.nodesWith(identity)
		c.mu.Lock()
		before := c.duplicates[identity]
		if len(nodes) > 1 {
			c.duplicates[identity] = nodes
		} else {
			delete(c.duplicates, identity)
		}
		total := len(c.duplicates)
		c.mu.Unlock()
		metrics.SetNodeLossDuplicates(total)
		if len(nodes) < 2 || slices.Equal(before, nodes) {
			continue
		}
		for _, node := range nodes {
			others := slices.DeleteFunc(slices.Clone(nodes), func(other string) bool { return other == node })
			c.event(&corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: node, UID: types.UID(node)}, nil, message{
				eventDuplicate, actionDuplicate,
				"disk " + identity + " is also reported by node " + strings.Join(others, ", ") +
					": give the disks different names, or attach the disk to one node only; until then, the loss of a node removes no volume of it",
			})
		}
	}
}

// nodesWith returns the existing nodes that report a disk of an identity, in order.
func (c *Controller) nodesWith(identity string) (nodes []string) {
	for _, report := range loop.List[stowage.LocalDiskReport](c.ReportInformer, byIdentity, identity) {
		if _, err := c.nodes.Get(report.Spec.NodeName); err == nil && !slices.Contains(nodes, report.Spec.NodeName) {
			nodes = append(nodes, report.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return nodes
}
