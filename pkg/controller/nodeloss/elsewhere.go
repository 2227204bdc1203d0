// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
)

// claimant is what else may use the disk of a volume (by its UID) of a node, in words for
// users; empty if nothing does. While there is one, a tombstone might have data cleaned
// that is still needed: also that of a disk that no node has now, as its node is gone or it
// was taken out, and that is still a volume, or was kept.
func (c *Controller) claimant(identity, node string, volume types.UID) string {
	if identity == "" {
		return ""
	}
	if other := c.elsewhere(identity, node); other != "" {
		return "node " + other + " says that it has that disk"
	}
	if other := c.twin(identity, node); other != nil {
		return "volume " + other.Name + " of node " + other.Annotations[wellknown.NodeNameAnnotation] + " is of that disk, too"
	}
	if other := c.keeper(identity, node, volume); other != "" {
		return "node " + other + " says that the data of that disk is retained"
	}
	return ""
}

// twin is a volume of a disk that is of another node than this one; nil if there is none.
func (c *Controller) twin(identity, node string) *corev1.PersistentVolume {
	objects, err := c.volumes.GetIndexer().ByIndex(byIdentity, identity)
	if err != nil {
		return nil // there is no such index, which watch would have told
	}
	var found *corev1.PersistentVolume
	for _, object := range objects {
		volume, ok := object.(*corev1.PersistentVolume)
		if ok && volume.Annotations[wellknown.NodeNameAnnotation] != node && (found == nil || volume.Name < found.Name) {
			found = volume
		}
	}
	return found
}

// keeper is a node, there or gone, that remembers a disk without a volume and retains its
// data; empty if there is none. The node of the volume counts if it retains the data of
// another volume, as one of another cluster, on which this volume was made by hand.
func (c *Controller) keeper(identity, node string, volume types.UID) string {
	objects, err := c.ReportInformer.GetIndexer().ByIndex(byRetained, identity)
	if err != nil {
		return "" // there is no such index, which watch would have told
	}
	found := ""
	for _, object := range objects {
		report, ok := object.(*stowage.LocalDiskReport)
		if !ok || found != "" && report.Spec.NodeName >= found {
			continue
		}
		own := func(t stowage.Tombstone) bool {
			return t.Identity == identity && t.State == stowage.TombstoneRetained && t.VolumeUID == string(volume)
		}
		if report.Spec.NodeName != node || !slices.ContainsFunc(report.Status.Tombstones, own) {
			found = report.Spec.NodeName
		}
	}
	return found
}

// elsewhere is a node other than this one whose agent reports that it has a disk of an
// identity; empty if there is none. A compromised agent may give
// its volumes the identity of any disk, to have that cleaned. Reports of nodes that are
// gone tell of what was.
func (c *Controller) elsewhere(identity, node string) string {
	objects, err := c.ReportInformer.GetIndexer().ByIndex(byIdentity, identity)
	if err != nil {
		return "" // there is no such index, which watch would have told
	}
	found := ""
	for _, object := range objects {
		report, ok := object.(*stowage.LocalDiskReport)
		if !ok || report.Spec.NodeName == node || found != "" && found <= report.Spec.NodeName {
			continue
		}
		if _, err := c.nodes.Get(report.Spec.NodeName); err == nil {
			found = report.Spec.NodeName
		}
	}
	return found
}

// reportChanged adds the volumes of a report's node, and those of other nodes whose disks
// it names, or named, and asks for a sweep if a disk of these has a tombstone.
func (c *Controller) reportChanged(old, object any) {
	if report, ok := object.(*stowage.LocalDiskReport); ok {
		c.addIndexed(byNode, report.Spec.NodeName)
	}
	for _, of := range []any{old, object} {
		identities, _ := identitiesOfReport(of)
		c.suspect(identities)
		retained, _ := retainedOfReport(of)
		for _, identity := range append(identities, retained...) {
			c.addIndexed(byIdentity, identity)
			if stones, err := c.ReportInformer.GetIndexer().IndexKeys(byStone, identity); err == nil && len(stones) > 0 {
				c.askSweep()
			}
		}
	}
}

// addTwins adds the volumes of a volume's disk when that is new or gone, or has become
// one of another disk.
func (c *Controller) addTwins(old any, volume *corev1.PersistentVolume) {
	identity := volume.Annotations[wellknown.DiskIdentityAnnotation]
	before, ok := old.(*corev1.PersistentVolume)
	if ok && before.UID == volume.UID && before.Annotations[wellknown.DiskIdentityAnnotation] == identity &&
		before.Annotations[wellknown.NodeNameAnnotation] == volume.Annotations[wellknown.NodeNameAnnotation] {
		return
	}
	c.addIndexed(byIdentity, identity)
	if ok {
		c.addIndexed(byIdentity, before.Annotations[wellknown.DiskIdentityAnnotation])
	}
}

// addDisks adds the volumes of any node whose disks the reports of this one name.
func (c *Controller) addDisks(node string) {
	for page := int32(1); page <= stowage.MaxPages; page++ {
		report := c.page(node, page)
		if report == nil {
			return
		}
		c.reportChanged(nil, report)
	}
}

// identitiesOfReport are those of the disks that a node has. One that is missing has
// been taken elsewhere, perhaps.
func identitiesOfReport(object any) ([]string, error) {
	report, ok := object.(*stowage.LocalDiskReport)
	if !ok {
		return nil, nil
	}
	var identities []string
	for i := range report.Status.Entries {
		if entry := &report.Status.Entries[i]; entry.Identity != "" && entry.State != stowage.EntryMissing {
			identities = append(identities, entry.Identity)
		}
	}
	return identities, nil
}

// retainedOfReport are the identities of disks that a node remembers without a volume, and
// whose data it retains.
func retainedOfReport(object any) ([]string, error) {
	report, ok := object.(*stowage.LocalDiskReport)
	if !ok {
		return nil, nil
	}
	var identities []string
	for i := range report.Status.Tombstones {
		if stone := &report.Status.Tombstones[i]; stone.State == stowage.TombstoneRetained {
			identities = append(identities, stone.Identity)
		}
	}
	return identities, nil
}

// stonesOfReport are the identities of the disks that have a tombstone in a report.
func stonesOfReport(object any) ([]string, error) {
	report, ok := object.(*stowage.LocalDiskReport)
	if !ok {
		return nil, nil
	}
	var identities []string
	for i := range report.Spec.Tombstones {
		identities = append(identities, report.Spec.Tombstones[i].Identity)
	}
	return identities, nil
}
