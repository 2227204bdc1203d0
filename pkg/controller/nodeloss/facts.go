// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeloss

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	controller "stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/controller/nodeloss/rules"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/loop"
)

// volumeFacts are the facts about a volume with the objects they were read from.
type volumeFacts struct {
	rules.Facts
	volume *corev1.PersistentVolume
	node   string
	// claim is the claim that the volume is bound to; nil if none has its UID.
	claim *corev1.PersistentVolumeClaim
	// page is the page of the node's report with the volume's entry.
	page int32
}

// readFacts reads the facts from the informers; nil if the volume is of neither kind.
func (c *Controller) readFacts(volume *corev1.PersistentVolume, now time.Time) (*volumeFacts, error) {
	f := &volumeFacts{volume: volume, node: nodeOf(volume)}
	f.Now = now
	var problem *disk.Problem
	if f.Provisioned = provisioned(volume); f.Provisioned {
		f.Volume = provisionedVolume(volume)
	} else if f.Volume, problem = localpv.VolumeOf(volume, nil); problem != nil {
		return nil, nil // not a local volume
	}
	var err error
	if f.Node, err = c.readNode(f, c.nodes.Get); err != nil {
		return nil, err
	}
	f.ProvisionerSince = c.provisionerSince(f.node)
	c.readReports(f)
	if !f.Provisioned {
		f.OtherUse = c.otherUse(string(f.Volume.Identity), f.node, volume.UID)
		f.HasTombstone = c.hasTombstone(f)
	}
	f.Mark = rules.ReadMark(volume.Annotations[wellknown.LostAnnotation])
	f.Release = rules.ReadRelease(volume.Annotations[wellknown.ReleaseAnnotation])
	if c.Settings.DryRun {
		f.Mark, f.Release = c.simulated(volume, now)
	}
	if err := c.readClaim(f); err != nil {
		return nil, err
	}
	if f.Terms, err = c.readTerms(f, c.classes.Get); err != nil {
		return nil, err
	}
	if f.Mark != nil && f.Claim != nil && f.Terms.Release { // counting is expensive
		f.Exhausted = rules.Spent(c.otherReleases(f), now) >= int(*c.Settings.ReleasesPerMinute)
	}
	return f, nil
}

// provisionedVolume returns what a PersistentVolume says about a volume of a PavProvisioner.
func provisionedVolume(volume *corev1.PersistentVolume) disk.Volume {
	v := disk.Volume{
		Name: volume.Name, UID: string(volume.UID), ResourceVersion: volume.ResourceVersion,
		Phase: disk.Phase(volume.Status.Phase), Policy: disk.Policy(volume.Spec.PersistentVolumeReclaimPolicy),
		Claimed: volume.Spec.ClaimRef != nil, Deleting: volume.DeletionTimestamp != nil,
	}
	if v.Claimed {
		v.ClaimUID = string(volume.Spec.ClaimRef.UID)
	}
	return v
}

// getter returns an object by its name, from an informer or the API server.
type getter[T any] func(name string) (*T, error)

// live gets objects from the API server.
func live[T any](ctx context.Context, get func(context.Context, string, metav1.GetOptions) (*T, error)) getter[T] {
	return func(name string) (*T, error) { return get(ctx, name, metav1.GetOptions{}) }
}

// get returns an object; nil if it does not exist. what names it in errors.
func get[T any](what string, from getter[T], name string) (*T, error) {
	object, err := from(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", what, err)
	default:
		return object, nil
	}
}

// readNode returns the state of the volume's node.
func (c *Controller) readNode(f *volumeFacts, nodes getter[corev1.Node]) (rules.Node, error) {
	node, err := get("node "+f.node, nodes, f.node)
	return c.nodeState(node), err
}

// nodeState returns the state of a node; nil is a node that does not exist.
func (c *Controller) nodeState(node *corev1.Node) rules.Node {
	switch {
	case node == nil:
		return rules.Gone
	case readyOf(node): // the taint is left over: kubelet works again
		return rules.Ready
	case c.Settings.OutOfService == controller.OutOfServiceLost && outOfService(node):
		return rules.OutOfService
	default:
		return rules.NotReady
	}
}

// readReports adds what the node's provisioner reported about the volume.
func (c *Controller) readReports(f *volumeFacts) {
	for report := range stowage.StoredPages(c.ReportInformer.GetStore(), f.node) {
		if at := report.Status.LastTransitionTime; at != nil && at.After(f.ReportedAt) {
			f.ReportedAt = at.Time
		}
		if state, ok := entryOf(report, f.volume); ok {
			f.Disk, f.page = state, report.Spec.Page
		}
	}
}

// entryOf returns the state of the volume's disk in a report, and whether the report lists it.
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
			return rules.DiskPresent, true
		}
	}
	return rules.DiskPresent, false
}

// readTerms returns the terms of the claim and of the volume's class, if it exists.
func (c *Controller) readTerms(f *volumeFacts, classes getter[storagev1.StorageClass]) (rules.Terms, error) {
	var class *storagev1.StorageClass
	if name := f.volume.Spec.StorageClassName; name != "" {
		var err error
		if class, err = get("StorageClass "+name, classes, name); err != nil {
			return rules.Terms{}, err
		}
	}
	defaults := rules.Terms{Release: c.Settings.Policy == controller.NodeLossRelease, Delay: c.Settings.Delay.Duration}
	var asked []rules.Annotated
	if class != nil {
		asked = append(asked, rules.Annotated{Object: "StorageClass " + class.Name, Annotations: class.Annotations})
	}
	if f.claim != nil {
		asked = append(asked, rules.Annotated{Object: "claim " + f.claim.Namespace + "/" + f.claim.Name, Annotations: f.claim.Annotations})
	}
	terms := rules.TermsOf(defaults, asked...)
	if f.claim == nil && terms.Problem != "" {
		return defaults, nil // no claim could be released
	}
	return terms, nil
}

// otherReleases are the counted releases without that of the volume's claim. That claim exists: it
// was not deleted.
func (c *Controller) otherReleases(f *volumeFacts) map[string]time.Time {
	releases := c.releases()
	if f.Release != nil && f.Release.ClaimUID == f.Volume.ClaimUID {
		delete(releases, string(f.volume.UID))
	}
	return releases
}

// releases are the counted releases, by the UIDs of the volumes.
func (c *Controller) releases() map[string]time.Time {
	releases := map[string]time.Time{}
	for _, volume := range loop.List[corev1.PersistentVolume](c.volumes, byRelease, "") {
		if release := rules.ReadRelease(volume.Annotations[wellknown.ReleaseAnnotation]); release != nil {
			releases[string(volume.UID)] = release.At
		}
	}
	for _, tombstone := range loop.List[stowage.LocalDiskTombstone](c.TombstoneInformer, "", "") {
		if released := tombstone.Spec.Released; released != nil {
			releases[tombstone.Spec.VolumeUID] = released.Add(time.Second) // its resolution is one second
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(releases, c.released)
	return releases
}

// simulated returns what a dry run would have written on a volume. Its releases are always within
// the leeway.
func (c *Controller) simulated(volume *corev1.PersistentVolume, now time.Time) (*rules.Mark, *rules.BegunRelease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.dryRuns[volume.Name]
	if p.uid != volume.UID {
		return nil, nil
	}
	if p.release == nil {
		return p.mark, nil
	}
	return p.mark, &rules.BegunRelease{ClaimUID: p.release.ClaimUID, At: now}
}

// The label of the provisioners' pods in the manifests.
const (
	provisionerLabel = "app.kubernetes.io/name"
	provisionerName  = "stowage-provisioner"
)

// provisionerSince is since when a provisioner of a node is Ready, from the informer; zero if none
// is.
func (c *Controller) provisionerSince(node string) time.Time {
	var since time.Time
	for _, pod := range loop.List[corev1.Pod](c.pods, byProvisioner, node) {
		since = earlier(since, readySince(pod))
	}
	return since
}

// liveProvisionerSince is the same from the API server.
func (c *Controller) liveProvisionerSince(ctx context.Context, node string) (since time.Time, err error) {
	pods, err := c.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{provisionerLabel: provisionerName}.String(),
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return since, fmt.Errorf("list the provisioners of node %s: %w", node, err)
	}
	for i := range pods.Items {
		since = earlier(since, readySince(&pods.Items[i]))
	}
	return since, nil
}

// earlier returns the earlier of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// readySince is since when a pod is Ready; zero if it is not, or is terminating.
func readySince(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return time.Time{}
	}
	for i := range pod.Status.Conditions {
		if ready := &pod.Status.Conditions[i]; ready.Type == corev1.PodReady && ready.Status == corev1.ConditionTrue {
			return ready.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// nodeOfProvisioner returns the node of a provisioner's pod; none for other pods.
func (c *Controller) nodeOfProvisioner(pod *corev1.Pod) []string {
	if pod.Namespace != c.Namespace || pod.Labels[provisionerLabel] != provisionerName || pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// provisionerDiffers reports whether a relevant field of a provisioner's pod has changed.
func provisionerDiffers(old any, pod *corev1.Pod) bool {
	before, ok := old.(*corev1.Pod)
	return !ok || before.Spec.NodeName != pod.Spec.NodeName || !readySince(before).Equal(readySince(pod))
}
