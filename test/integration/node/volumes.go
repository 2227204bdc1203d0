// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/await"
)

// Volume is the newest observed state of the node's volume of a slot, or nil. It is
// shared: do not change it.
func (n *Node) Volume(class, name string) *corev1.PersistentVolume {
	var found *corev1.PersistentVolume
	for _, volume := range n.Env.AllPVs() {
		if localpv.Owned(volume, n.Name) && localpv.PathOf(volume) == n.PathOf(class, name) {
			if found == nil || volume.DeletionTimestamp == nil {
				found = volume
			}
		}
	}
	return found
}

// WaitVolume waits until is accepts the volume of a slot, and returns it; is is called with
// nil for a slot without a volume.
func (n *Node) WaitVolume(class, name, what string, is func(*corev1.PersistentVolume) bool) *corev1.PersistentVolume {
	n.t.Helper()
	var seen *corev1.PersistentVolume
	n.Env.Wait(fmt.Sprintf("the volume of %s to be %s", n.PathOf(class, name), what), func() bool {
		seen = n.Volume(class, name)
		return is(seen)
	})
	return seen
}

// WaitPhase waits until the slot's volume is in a phase, and not being deleted.
func (n *Node) WaitPhase(class, name string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	n.t.Helper()
	return n.WaitVolume(class, name, string(phase), func(v *corev1.PersistentVolume) bool {
		return v != nil && v.Status.Phase == phase && v.DeletionTimestamp == nil
	})
}

// WaitRepublished waits until the slot has another volume than before, and it is Available.
func (n *Node) WaitRepublished(class, name string, before *corev1.PersistentVolume) *corev1.PersistentVolume {
	n.t.Helper()
	return n.WaitVolume(class, name, "published again", func(v *corev1.PersistentVolume) bool {
		return v != nil && v.UID != before.UID && v.Status.Phase == corev1.VolumeAvailable
	})
}

// WaitNone waits until the slot has no volume.
func (n *Node) WaitNone(class, name string) {
	n.t.Helper()
	n.WaitVolume(class, name, "gone", func(v *corev1.PersistentVolume) bool { return v == nil })
}

// WaitReport waits until is accepts the first page of the node's report.
func (n *Node) WaitReport(what string, is func(*stowage.LocalDiskReport) bool) *stowage.LocalDiskReport {
	n.t.Helper()
	return n.WaitPage(1, what, is)
}

// WaitPage waits until is accepts a page of the node's report.
func (n *Node) WaitPage(page int32, what string, is func(*stowage.LocalDiskReport) bool) *stowage.LocalDiskReport {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.Env.Context(), n.Env.Timeout)
	defer cancel()
	reports, err := diskreports.NewClient(n.Env.Cluster.RESTConfig())
	n.do(err)
	name := stowage.PageName(n.Name, page)
	last, err := await.Object(ctx, reports, name, is)
	if err == nil {
		return last
	}
	n.t.Fatalf("waited %s for report %s to be %s: %v\n%s\n%s", n.Env.Timeout, name, what, err, show(last), n.Env.Dump())
	return nil
}

// WaitEntry waits until the report's entry of a slot has this state and reason, and returns it.
func (n *Node) WaitEntry(class, name string, state stowage.EntryState, reason string) stowage.Entry {
	n.t.Helper()
	var found stowage.Entry
	n.WaitReport(fmt.Sprintf("%s %s for %s/%s", state, reason, class, name), func(r *stowage.LocalDiskReport) bool {
		for _, entry := range r.Status.Entries {
			if entry.Class == class && entry.Name == name && entry.State == state && entry.Reason == reason {
				found = entry
				return true
			}
		}
		return false
	})
	return found
}

// AllowClean waits until the provisioner requests to clean the disk of a released volume that is
// deleted, and allows it as the controller does.
func (n *Node) AllowClean(class, name string) {
	n.t.Helper()
	entry := n.WaitEntry(class, name, stowage.EntryCleaning, string(disk.OrphanCleanWaits))
	n.do(n.AnnotateReport(n.Env.Context(), wellknown.CleanOrphansAnnotation, entry.Acknowledgement))
}

// AnnotateReport writes an annotation to the first page of the node's report, as an
// administrator or the controller does.
func (n *Node) AnnotateReport(ctx context.Context, key, text string) error {
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, text)
	return n.Env.Client.CoreV1().RESTClient().Patch(types.MergePatchType).
		AbsPath("/apis/stowage.dev/v1alpha1/localdiskreports", n.Name).Body(body).Do(ctx).Error()
}

// report is the provisioner's last report, for messages of tests that fail.
func (n *Node) report() string {
	ctx, cancel := context.WithTimeout(context.Background(), n.Env.Timeout)
	defer cancel()
	reports, err := diskreports.NewClient(n.Env.Cluster.RESTConfig())
	if err != nil {
		return err.Error()
	}
	last, err := reports.Get(ctx, stowage.PageName(n.Name, 1), metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return show(last)
}

func show(report *stowage.LocalDiskReport) string {
	if report == nil {
		return "no report"
	}
	var lines strings.Builder
	for _, e := range report.Status.Entries {
		fmt.Fprintf(&lines, "  %s/%s %s %s %s %s\n", e.Class, e.Name, e.State, e.Reason, e.Volume, e.Message)
	}
	return lines.String()
}

// Write writes a file in a slot of class Files, as a pod would.
func (n *Node) Write(name, file, text string) {
	n.t.Helper()
	n.do(os.WriteFile(filepath.Join(n.PathOf(n.Files, name), file), []byte(text), 0o600))
}

// Names lists the files of a slot of class Files, without lost+found.
func (n *Node) Names(name string) []string {
	n.t.Helper()
	entries, err := os.ReadDir(n.PathOf(n.Files, name))
	n.do(err)
	var names []string
	for _, entry := range entries {
		if entry.Name() != "lost+found" {
			names = append(names, entry.Name())
		}
	}
	return names
}

// Claim binds a claim to the volume of a slot, once that is Available, waits until both are
// Bound, and returns the volume. The claim has the volume's name.
func (n *Node) Claim(class, name string) *corev1.PersistentVolume {
	n.t.Helper()
	volume := n.WaitPhase(class, name, corev1.VolumeAvailable)
	claim := n.Env.PVC(volume.Name).Class(class).Request("1Mi").VolumeName(volume.Name)
	if *volume.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		claim.Block()
	}
	n.Env.CreatePVC(claim)
	n.Env.WaitBound(volume.Name, "")
	return n.WaitVolume(class, name, "bound to its claim", func(v *corev1.PersistentVolume) bool {
		return v != nil && v.UID == volume.UID && v.Status.Phase == corev1.VolumeBound
	})
}

// Unclaim deletes the claim that Claim made.
func (n *Node) Unclaim(volume *corev1.PersistentVolume) {
	n.t.Helper()
	n.Env.DeletePVC(volume.Name)
}

// SetPolicy changes a volume's reclaim policy.
func (n *Node) SetPolicy(volume *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy) {
	n.t.Helper()
	n.Patch(volume, fmt.Sprintf(`{"spec":{"persistentVolumeReclaimPolicy":%q}}`, policy))
}

// Patch changes a volume, as an administrator does.
func (n *Node) Patch(volume *corev1.PersistentVolume, text string, subresources ...string) {
	n.t.Helper()
	_, err := n.Env.Client.CoreV1().PersistentVolumes().Patch(n.Env.Context(), volume.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
	n.do(err)
}

// Release is Unclaim, and waits until the PersistentVolume controller has handled it: the
// volume is Released, or deleted already.
func (n *Node) Release(volume *corev1.PersistentVolume) {
	n.t.Helper()
	n.Unclaim(volume)
	n.Env.Wait("volume "+volume.Name+" to be released", func() bool {
		return !slices.ContainsFunc(n.Env.AllPVs(), func(v *corev1.PersistentVolume) bool {
			return v.UID == volume.UID && v.Status.Phase == corev1.VolumeBound
		})
	})
}

// Delete deletes a volume, as an administrator may, and does not wait for the deletion.
func (n *Node) Delete(volume *corev1.PersistentVolume) {
	n.t.Helper()
	if err := n.Env.Client.CoreV1().PersistentVolumes().Delete(n.Env.Context(), volume.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		n.do(err)
	}
}

// Published are the names of the slots of a class that have a volume, in order. A slot with
// two volumes is listed twice.
func (n *Node) Published(class string) []string {
	n.t.Helper()
	list, err := n.Env.Client.CoreV1().PersistentVolumes().List(n.Env.Context(), metav1.ListOptions{LabelSelector: localpv.Selector(n.Name)})
	n.do(err)
	var names []string
	for _, v := range list.Items {
		if v.Spec.StorageClassName == class {
			names = append(names, filepath.Base(localpv.PathOf(&v)))
		}
	}
	slices.Sort(names)
	return names
}
