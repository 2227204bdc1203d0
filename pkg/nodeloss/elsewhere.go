// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
)

// elsewhere is a node other than this one whose agent reports that it has a disk of an
// identity; empty if there is none. An agent that somebody else has got hold of may give
// its volumes the identity of any disk, to have that cleaned. Reports of nodes that are
// gone tell of what was.
func (c *Controller) elsewhere(identity, node string) string {
	if identity == "" {
		return ""
	}
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
// it names, or named.
func (c *Controller) reportChanged(old, object any) {
	if report, ok := object.(*stowage.LocalDiskReport); ok {
		c.addIndexed(byNode, report.Spec.NodeName)
	}
	for _, of := range []any{old, object} {
		identities, _ := identitiesOfReport(of)
		for _, identity := range identities {
			c.addIndexed(byIdentity, identity)
		}
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
