// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
)

const (
	eventDuplicate  = "DuplicateIdentity"
	actionDuplicate = "CompareDisks"
)

// otherUse describes for users what else may use the disk of a volume (by its UID) of a node;
// empty if nothing does. A tombstone might then have needed data cleaned: even that of a disk that
// is detached now, or whose node is gone, but that has another volume or is retained.
func (c *Controller) otherUse(identity, node string, volume types.UID) string {
	if identity == "" {
		return ""
	}
	if other := c.otherNode(identity, node); other != "" {
		return "node " + other + " reports that disk"
	}
	if other := c.volumeOnOtherNode(identity, node); other != nil {
		return "volume " + other.Name + " of node " + other.Annotations[wellknown.NodeNameAnnotation] + " has the same disk"
	}
	if other := c.retainingNode(identity, node, volume); other != "" {
		return "node " + other + " retains the data of that disk"
	}
	return ""
}

// volumeOnOtherNode returns a volume of a disk on another node than this one; nil if there is
// none.
func (c *Controller) volumeOnOtherNode(identity, node string) (found *corev1.PersistentVolume) {
	for _, volume := range loop.List[corev1.PersistentVolume](c.volumes, byIdentity, identity) {
		if volume.Annotations[wellknown.NodeNameAnnotation] != node && (found == nil || volume.Name < found.Name) {
			found = volume
		}
	}
	return found
}

// retainingNode returns a node, existing or not, whose report retains the data of a disk without a
// volume; empty if there is none. The node of the volume counts if it retains the data of another
// volume, such as one of another cluster.
func (c *Controller) retainingNode(identity, node string, volume types.UID) (found string) {
	own := func(t stowage.Tombstone) bool {
		return t.Identity == identity && t.State == stowage.TombstoneRetained && t.VolumeUID == string(volume)
	}
	for _, report := range loop.List[stowage.LocalDiskReport](c.ReportInformer, byRetained, identity) {
		name := report.Spec.NodeName
		if (found == "" || name < found) && (name != node || !slices.ContainsFunc(report.Status.Tombstones, own)) {
			found = name
		}
	}
	return found
}

// otherNode returns another node whose provisioner reports a disk of this identity; empty if there
// is none. A compromised provisioner may give its volumes the identity of any disk, to have that
// disk cleaned. Reports of nodes that are gone do not count.
func (c *Controller) otherNode(identity, node string) string {
	for _, other := range c.nodesWith(identity) {
		if other != node {
			return other
		}
	}
	return ""
}

// suspect requests a comparison of the nodes that report identities whose reports have changed, if
// these are, or were, several.
func (c *Controller) suspect(identities []string) {
	for _, identity := range identities {
		keys, err := c.ReportInformer.GetIndexer().IndexKeys(byIdentity, identity)
		c.mu.Lock()
		_, known := c.duplicates[identity]
		c.mu.Unlock()
		if err == nil && len(keys) > 1 || known {
			c.sweeps.Add(suspectPrefix + identity)
		}
	}
}

// reportDuplicates records an event on every node that reports an identity which another existing
// node reports too: a cloned disk, a disk attached to several nodes, or a wrong report. Until that
// is fixed, no volume of the disk gets a tombstone; see otherUse.
func (c *Controller) reportDuplicates(identity string) {
	nodes := c.nodesWith(identity)
	c.mu.Lock()
	before := c.duplicates[identity]
	if len(nodes) > 1 {
		c.duplicates[identity] = nodes
	} else {
		delete(c.duplicates, identity)
	}
	metrics.SetNodeLossDuplicates(len(c.duplicates))
	c.mu.Unlock()
	if len(nodes) < 2 || slices.Equal(before, nodes) {
		return
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

// reportChanged enqueues the volumes of a report's node and the volumes of other nodes whose disks
// it lists or listed. It requests a sweep if one of these disks has a tombstone.
func (c *Controller) reportChanged(old, object any) {
	if report, ok := object.(*stowage.LocalDiskReport); ok {
		c.enqueueIndexed(byNode, report.Spec.NodeName)
	}
	for _, of := range []any{old, object} {
		report, ok := of.(*stowage.LocalDiskReport)
		if !ok {
			continue
		}
		identities := identitiesOfReport(report)
		c.suspect(identities)
		for _, identity := range append(identities, retainedOfReport(report)...) {
			c.enqueueIndexed(byIdentity, identity)
			if tombstones, err := c.TombstoneInformer.GetIndexer().IndexKeys(byIdentity, identity); err == nil && len(tombstones) > 0 {
				c.sweeps.Add(tombstonesKey)
			}
		}
	}
}

// enqueueSameDisk enqueues all volumes of a volume's disk if the volume is new, deleted, or of
// another disk now.
func (c *Controller) enqueueSameDisk(old any, volume *corev1.PersistentVolume) {
	identity := volume.Annotations[wellknown.DiskIdentityAnnotation]
	before, ok := old.(*corev1.PersistentVolume)
	if ok && before.UID == volume.UID && before.Annotations[wellknown.DiskIdentityAnnotation] == identity &&
		before.Annotations[wellknown.NodeNameAnnotation] == volume.Annotations[wellknown.NodeNameAnnotation] {
		return
	}
	c.enqueueIndexed(byIdentity, identity)
	if ok {
		c.enqueueIndexed(byIdentity, before.Annotations[wellknown.DiskIdentityAnnotation])
	}
}

func reportIndexes() cache.Indexers {
	return cache.Indexers{byIdentity: index(identitiesOfReport), byRetained: index(retainedOfReport)}
}

func tombstoneIndexes() cache.Indexers {
	return cache.Indexers{
		byIdentity: index(func(t *stowage.LocalDiskTombstone) []string { return []string{t.Spec.Identity} }),
		byNode:     index(func(t *stowage.LocalDiskTombstone) []string { return []string{t.Spec.NodeName} }),
	}
}

// identitiesOfReport returns the identities of the disks that a node has. A missing disk may be
// attached to another node.
func identitiesOfReport(report *stowage.LocalDiskReport) []string {
	return identities(report.Status.Entries, func(e *stowage.Entry) (string, bool) {
		return e.Identity, e.Identity != "" && e.State != stowage.EntryMissing
	})
}

// retainedOfReport returns the identities of disks without a volume whose data a node retains.
func retainedOfReport(report *stowage.LocalDiskReport) []string {
	return identities(report.Status.Tombstones, func(t *stowage.Tombstone) (string, bool) { return t.Identity, t.State == stowage.TombstoneRetained })
}

func identities[T any](list []T, of func(*T) (identity string, ok bool)) (found []string) {
	for i := range list {
		if identity, ok := of(&list[i]); ok {
			found = append(found, identity)
		}
	}
	return found
}
