// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	controller "stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/localpv"
)

// gathered is a volume with all that is known about it.
type gathered struct {
	rules.Facts
	volume *corev1.PersistentVolume
	node   string
	// claim is the one that the volume is bound to; nil if there is none of its UID.
	claim *corev1.PersistentVolumeClaim
	// page is the page of the node's report that has the volume's entry.
	page int32
	// report is the first page; nil if there is none.
	report *stowage.LocalDiskReport
}

// gather collects what the informers show; nil for what is no volume of ours.
func (c *Controller) gather(volume *corev1.PersistentVolume, now time.Time) (*gathered, error) {
	g := &gathered{volume: volume, node: volume.Annotations[wellknown.NodeNameAnnotation]}
	v, problem := localpv.VolumeOf(volume, nil)
	if problem != nil {
		return nil, nil // not a local volume, whatever else it says
	}
	g.Now = now
	g.Volume = rules.Volume{
		Phase: v.Phase, Policy: v.Policy, Identity: v.Identity, Claimed: v.Claimed, Mark: v.Mark,
		Deleting: v.Deleting, Finalized: v.Finalized,
	}
	if ref := volume.Spec.ClaimRef; ref != nil {
		g.Volume.ClaimUID = string(ref.UID)
	}
	node, err := c.nodes.Get(g.node)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get node %s: %w", g.node, err)
	}
	g.Node = c.nodeState(node)
	if g.AgentSince, err = c.agentSince(g.node); err != nil {
		return nil, err
	}
	c.readReports(g)
	g.Elsewhere = c.claimant(string(v.Identity), g.node, volume.UID)
	g.Mark = rules.ReadMark(volume.Annotations[wellknown.LostAnnotation])
	g.Release = rules.ReadRelease(volume.Annotations[wellknown.ReleaseAnnotation])
	if c.DryRun() {
		g.Mark, g.Release = c.pretend(volume, now)
	}
	if err := c.readClaim(g); err != nil {
		return nil, err
	}
	if err := c.readTerms(g); err != nil {
		return nil, err
	}
	if g.Mark != nil && g.Claim != nil && g.Terms.Release { // to count costs more than all else
		g.Exhausted = rules.Spent(c.spentBesides(g), now) >= int(*c.Settings.ReleasesPerMinute)
	}
	return g, nil
}

// nodeState is what there is of a node; nil is none.
func (c *Controller) nodeState(node *corev1.Node) rules.Node {
	switch {
	case node == nil:
		return rules.Gone
	case readyOf(node): // the taint was left behind: kubelet works again, and so may the agent
		return rules.Ready
	case c.Settings.OutOfService == controller.OutOfServiceLost && outOfService(node):
		return rules.OutOfService
	default:
		return rules.NotReady
	}
}

// readReports adds what the node's agent told of the volume.
func (c *Controller) readReports(g *gathered) {
	for page := int32(1); page <= stowage.MaxPages; page++ {
		report := c.page(g.node, page)
		if report == nil {
			if page == 1 {
				continue // created again by an agent when it has news, or by us
			}
			return
		}
		if page == 1 {
			g.report = report
			g.Buried = buried(report, g.volume)
		}
		if at := report.Status.LastTransitionTime; at != nil && at.After(g.ReportedAt) {
			g.ReportedAt = at.Time
		}
		if state, ok := entryOf(report, g.volume); ok {
			g.Disk, g.page = state, page
		}
	}
}

// page is a page of a node's report; nil if there is none.
func (c *Controller) page(node string, page int32) *stowage.LocalDiskReport {
	object, exists, err := c.ReportInformer.GetStore().GetByKey(stowage.PageName(node, page))
	if err != nil || !exists {
		return nil
	}
	report, ok := object.(*stowage.LocalDiskReport)
	if !ok || report.Spec.NodeName != node || report.Spec.Page != page {
		return nil
	}
	return report
}

// entryOf is how a report says that the volume's disk stands, if it says anything.
func entryOf(report *stowage.LocalDiskReport, volume *corev1.PersistentVolume) (rules.DiskState, bool) {
	for i := range report.Status.Entries {
		entry := &report.Status.Entries[i]
		if entry.Volume != volume.Name {
			continue
		}
		switch entry.State {
		case stowage.EntryMissing:
			return rules.DiskMissing, true
		case stowage.EntryReplaced:
			return rules.DiskReplaced, true
		case stowage.EntryFailing:
			return rules.DiskFailing, true
		default:
			return rules.DiskThere, true
		}
	}
	return rules.DiskThere, false
}

// buried reports whether a report has a tombstone of a volume.
func buried(report *stowage.LocalDiskReport, volume *corev1.PersistentVolume) bool {
	for i := range report.Spec.Tombstones {
		t := &report.Spec.Tombstones[i]
		if t.VolumeUID == string(volume.UID) && t.Identity == volume.Annotations[wellknown.DiskIdentityAnnotation] {
			return report.Labels[wellknown.TombstonesLabel] == wellknown.TombstonesValue
		}
	}
	return false
}

// readTerms adds what claim and class ask for.
func (c *Controller) readTerms(g *gathered) error {
	var class *storagev1.StorageClass
	if name := g.volume.Spec.StorageClassName; name != "" {
		var err error
		if class, err = c.classes.Get(name); apierrors.IsNotFound(err) {
			class = nil
		} else if err != nil {
			return fmt.Errorf("get StorageClass %s: %w", name, err)
		}
	}
	g.Terms = c.termsOf(g, class)
	return nil
}

// termsOf are what the claim and a class, nil if there is none, ask for.
func (c *Controller) termsOf(g *gathered, class *storagev1.StorageClass) rules.Terms {
	defaults := rules.Terms{Release: c.Settings.Policy == controller.NodeLossRelease, Delay: c.Settings.Delay.Duration}
	var asked []rules.Asked
	if class != nil {
		asked = append(asked, rules.Asked{Object: "StorageClass " + class.Name, Annotations: class.Annotations})
	}
	if g.claim != nil {
		asked = append(asked, rules.Asked{Object: "claim " + g.claim.Namespace + "/" + g.claim.Name, Annotations: g.claim.Annotations})
	}
	terms := rules.TermsOf(defaults, asked...)
	if g.claim == nil && terms.Problem != "" {
		return defaults // no claim is at stake
	}
	return terms
}

// spentBesides are the releases that count, but for that of the volume's claim, which is
// there: whatever was written, it was not deleted.
func (c *Controller) spentBesides(g *gathered) map[string]time.Time {
	spent := c.spent()
	if g.Release != nil && g.Release.ClaimUID == g.Volume.ClaimUID {
		delete(spent, string(g.volume.UID))
	}
	return spent
}

// spent are the releases that count, by the UIDs of the volumes.
func (c *Controller) spent() map[string]time.Time {
	spent := map[string]time.Time{}
	objects, err := c.volumes.GetIndexer().ByIndex(byRelease, "")
	if err != nil {
		objects = nil // there is no such index, which watch would have told
	}
	for _, object := range objects {
		if volume, ok := object.(*corev1.PersistentVolume); ok {
			if release := rules.ReadRelease(volume.Annotations[wellknown.ReleaseAnnotation]); release != nil {
				spent[string(volume.UID)] = release.At
			}
		}
	}
	for _, object := range c.ReportInformer.GetIndexer().List() {
		report, ok := object.(*stowage.LocalDiskReport)
		if !ok {
			continue
		}
		for i := range report.Spec.Tombstones {
			if t := &report.Spec.Tombstones[i]; t.Released != nil {
				spent[t.VolumeUID] = t.Released.Add(time.Second) // it is to the second
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(spent, c.released)
	return spent
}

// pretend is what a dry run would have written on a volume. Its releases would have come
// to an end and are never late.
func (c *Controller) pretend(volume *corev1.PersistentVolume, now time.Time) (*rules.Mark, *rules.Began) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pretended[volume.Name]
	if p.uid != volume.UID {
		return nil, nil
	}
	if p.release == nil {
		return p.mark, nil
	}
	return p.mark, &rules.Began{ClaimUID: p.release.ClaimUID, At: now}
}
