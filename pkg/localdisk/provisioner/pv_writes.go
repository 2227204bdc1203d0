// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
)

// act does what was decided.
func (p *Provisioner) act(ctx context.Context, g *gathered, d decide.Decision) error {
	if err := p.removeOtherFinalizers(ctx, g); err != nil {
		return err
	}
	if d.Do != decide.None {
		klog.FromContext(ctx).V(4).Info("Decided", "action", d.Do, "path", g.Path, logkeys.Volume, klog.KRef("", g.VolumeName()))
	}
	switch d.Do {
	case decide.WriteRecord:
		return p.writeRecord(ctx, g)
	case decide.MoveVolume:
		return p.moveVolume(ctx, g)
	case decide.AddFinalizer:
		return p.addFinalizer(ctx, g)
	case decide.MarkDisk:
		return p.markDisk(ctx, g, d.Mark)
	case decide.DeleteVolume:
		return p.deletePV(ctx, g, d)
	case decide.CleanLater:
		return p.cleanLater(g)
	case decide.MarkVanished:
		return p.recordMissed(ctx, g)
	case decide.MarkRetained:
		return p.markRetained(ctx, g)
	case decide.MarkClean:
		return p.markClean(ctx, g, d.Generation)
	case decide.RestoreRecord:
		return p.restoreFromTombstone(ctx, g)
	case decide.RemoveFinalizer:
		return p.removeFinalizer(ctx, g.Volume)
	case decide.MakeFilesystem:
		return p.makeFilesystem(ctx, g, d.Generation)
	case decide.Create:
		return p.create(ctx, g, d.Generation)
	case decide.RecordFilesystem:
		return p.recordFilesystem(ctx, g)
	case decide.AddLink:
		return p.addLink(ctx, g)
	case decide.RemoveLink:
		return p.removeLink(ctx, g, d)
	case decide.Clean:
		return p.cleans.Begin(ctx, &g.Slot, d.Generation)
	case decide.ProveBlank:
		p.proofs.Start(ctx, &g.Slot)
		return nil
	default:
		return nil
	}
}

// updatePV updates a volume, if the informer still shows the version that was decided on.
func (p *Provisioner) updatePV(ctx context.Context, v *disk.Volume, change func(*corev1.PersistentVolume)) error {
	shown := p.volumes.get(v.Name)
	if shown == nil || string(shown.UID) != v.UID || shown.ResourceVersion != v.ResourceVersion {
		return decide.ErrStale
	}
	volume := shown.DeepCopy()
	change(volume)
	written, err := p.Client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return decide.ErrStale // the informer lags
	case err != nil:
		return fmt.Errorf("update volume %s: %w", v.Name, err)
	}
	p.paths.expect(updated, written)
	return nil
}

// restoreFromTombstone records what the controller decided about a disk whose volume was lost:
// the disk is cleaned, as if a clean had started, or its data is retained.
func (p *Provisioner) restoreFromTombstone(ctx context.Context, g *gathered) error {
	tombstone := g.known.tombstone
	record := disk.Record{
		Identity: g.Fact.Identity, Key: g.Key, HostPath: g.Path, Kind: g.Fact.Kind, State: disk.Cleaning, Policy: disk.Delete,
		Cluster: p.Cluster, Phase: disk.PhaseReleased, Volume: tombstone.Volume, UID: tombstone.VolumeUID,
		Generation: max(tombstone.Generation, firstGeneration(g.conf.class(g.Key.Class), g.Since)),
	}
	if r := g.Record; r != nil && r.UID == tombstone.VolumeUID { // what only this node knows
		record.Mode, record.Root = r.Mode, r.Root
	}
	if tombstone.State == stowage.TombstoneRetained {
		record.State, record.Policy = disk.Retained, disk.Retain
	}
	if record.UID == "" { // written by hand: the value matches no volume
		record.UID = "unknown"
	}
	if err := p.Records.Put(record); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Restored the record of a disk from a tombstone", "path", g.Path, "volume", tombstone.Volume, "state", record.State)
	return nil
}

// writeRecord records a volume whose disk has no record, and writes the disk's identity to the
// volume.
func (p *Provisioner) writeRecord(ctx context.Context, g *gathered) error {
	v := *g.Volume
	attached := g.Fact != nil && g.Fact.Problem == nil && (v.Identity == "" || g.Match() == disk.Same)
	record := disk.Record{
		Key: v.Key, HostPath: v.HostPath, Mode: v.Mode, State: disk.Published, Volume: v.Name, UID: v.UID, Generation: v.Generation, Policy: v.Policy,
		Cluster: p.Cluster, Phase: v.Seen(),
	}
	if r := g.VolumeRecord; r != nil {
		record.Root, record.Kind, record.Filesystem = r.Root, r.Kind, r.Filesystem
		if r.Volume == v.Name && (r.UID == "" || r.UID == v.UID) && r.Unclaimed() {
			record.Attachment, record.Accepted = r.Attachment, r.Accepted
		}
	}
	record.Identity = v.Identity
	if attached {
		record.Identity, record.Kind = g.Fact.Identity, g.Fact.Kind
		if record.Root == nil {
			root, err := p.RootOf(ctx, &g.Slot)
			if err != nil {
				return err
			}
			record.Root = root
		}
	}
	switch {
	case !record.Unclaimed(): // the disk may have data
		record.Attachment = ""
	case attached && g.Content == disk.ContentNone:
		record.Attachment = g.Fact.Attachment
	}
	if err := p.Records.Put(record); err != nil {
		return err
	}
	if v.Identity == record.Identity {
		return nil
	}
	if err := p.updatePV(ctx, &v, func(volume *corev1.PersistentVolume) {
		if volume.Annotations == nil {
			volume.Annotations = map[string]string{}
		}
		volume.Annotations[wellknown.DiskIdentityAnnotation] = string(record.Identity)
		volume.Annotations[wellknown.DiskBytesAnnotation] = strconv.FormatInt(g.Fact.Bytes, 10)
		if volume.Annotations[wellknown.GenerationAnnotation] == "" {
			volume.Annotations[wellknown.GenerationAnnotation] = strconv.FormatInt(v.Generation, 10)
		}
	}); err != nil {
		return err
	}
	if v.Identity.Weak() {
		return p.Records.Delete(v.Identity) // of an earlier boot: it identifies no disk any more
	}
	return nil
}

// RootOf implements clean.Checks. The root is read once, before the first user of the
// disk can change it.
func (p *Provisioner) RootOf(ctx context.Context, g *decide.Slot) (json.RawMessage, error) {
	if g.Record != nil && g.Record.Root != nil {
		return g.Record.Root, nil
	}
	root, err := callWithin(ctx, p, g.Path, p.current().ProbeTimeout.Duration, func(ctx context.Context) (json.RawMessage, error) {
		return p.Inspector.Root(ctx, *g.Fact)
	})
	if err != nil {
		return nil, fmt.Errorf("read the root of %s: %w", g.Path, err)
	}
	return root, nil
}

// moveVolume makes the slot that of a volume whose slot was in the folder that its class had.
func (p *Provisioner) moveVolume(ctx context.Context, g *gathered) error {
	v := g.Displaced
	if p.cleans.Busy(ctx, v.HostPath) {
		return decide.ErrStale
	}
	if r := g.Record; r != nil && r.Volume == v.Name {
		record := *r
		record.Key, record.HostPath = g.Key, g.Path
		if err := p.Records.Put(record); err != nil {
			return err
		}
	}
	if err := p.updatePV(ctx, v, func(volume *corev1.PersistentVolume) {
		volume.Annotations[wellknown.DiskPathAnnotation] = g.Path
	}); err != nil {
		return err
	}
	p.scanner.Request() // finds out whether the volume's own pods use the device
	klog.FromContext(ctx).V(2).Info("Moved a volume to the folder that its class has now", logkeys.Volume, klog.KRef("", v.Name), "from", v.HostPath, "to", g.Path)
	return nil
}

// addFinalizer restores the finalizer of a volume.
func (p *Provisioner) addFinalizer(ctx context.Context, g *gathered) error {
	return p.updatePV(ctx, g.Volume, func(volume *corev1.PersistentVolume) {
		volume.Finalizers = append(volume.Finalizers, wellknown.LocalVolumeFinalizer)
	})
}

// markDisk writes the state of the disk to the volume, for schedulers and controllers.
func (p *Provisioner) markDisk(ctx context.Context, g *gathered, mark disk.Mark) error {
	err := p.updatePV(ctx, g.Volume, func(volume *corev1.PersistentVolume) {
		if mark == disk.Unmarked {
			delete(volume.Annotations, wellknown.DiskAnnotation)
			return
		}
		metav1.SetMetaDataAnnotation(&volume.ObjectMeta, wellknown.DiskAnnotation, string(mark))
	})
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Marked the volume of a disk", logkeys.Volume, klog.KRef("", g.Volume.Name), "path", g.Path, "mark", mark)
	}
	return err
}

// deletePV deletes a volume, if it is the version that was decided on. From then on no claim
// can bind it, and the finalizer keeps it.
func (p *Provisioner) deletePV(ctx context.Context, g *gathered, d decide.Decision) error {
	v := g.Volume
	shown := p.volumes.get(v.Name)
	if shown == nil || shown.ResourceVersion != v.ResourceVersion {
		return decide.ErrStale
	}
	err := p.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: new(types.UID(v.UID)), ResourceVersion: &v.ResourceVersion},
	})
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return decide.ErrStale
	case err != nil:
		return fmt.Errorf("delete volume %s: %w", v.Name, err)
	}
	p.paths.expect(deleted, shown)
	klog.FromContext(ctx).V(2).Info("Deleted PersistentVolume; finalizer kept until the disk is clean", logkeys.Volume, klog.KObj(shown), "path", g.Path)
	p.status.Removed(&g.Slot, d)
	return nil
}

// markRetained records that a disk's data is kept.
func (p *Provisioner) markRetained(ctx context.Context, g *gathered) error {
	record := disk.Record{Key: g.Key, HostPath: g.Path, State: disk.Retained, Cluster: p.Cluster}
	switch {
	case g.Volume == nil:
		record = *g.Record
		if err := p.confirmGone(ctx, record.Volume); err != nil {
			return err
		}
	case g.VolumeRecord != nil:
		record = *g.VolumeRecord
	}
	if v := g.Volume; v != nil {
		record.Volume, record.UID, record.Generation, record.Policy, record.Mode = v.Name, v.UID, v.Generation, v.Policy, v.Mode
		record.Phase = v.Seen()
		if record.Identity == "" {
			record.Identity = v.Identity
		}
		if record.Identity == "" {
			record.Identity, record.Kind = g.Fact.Identity, g.Fact.Kind
		}
	}
	record.State = disk.Retained
	if err := p.Records.Put(record); err != nil {
		return err
	}
	if g.Volume != nil && g.Volume.Identity == "" {
		return p.removeFinalizer(ctx, g.Volume) // the volume does not identify its record
	}
	return nil
}

// cleanLater records that the missing disk of a released volume is cleaned when it returns.
func (p *Provisioner) cleanLater(g *gathered) error {
	record := *g.VolumeRecord
	record.State, record.Phase, record.Step = disk.Cleaning, disk.PhaseReleased, ""
	return p.Records.Put(record)
}

// recordMissed records that the volume of a disk does not exist any more.
func (p *Provisioner) recordMissed(ctx context.Context, g *gathered) error {
	record := *g.Record
	if err := p.confirmGone(ctx, record.Volume); err != nil {
		return err
	}
	record.Missed = time.Now().UTC().Round(0)
	klog.FromContext(ctx).Info("Released volume was removed before its disk was cleaned", logkeys.Volume, klog.KRef("", record.Volume), "path", g.Path,
		"gracePeriod", g.conf.OrphanGracePeriod.Duration)
	return p.Records.Put(record)
}

// markClean records that a disk may be published.
func (p *Provisioner) markClean(ctx context.Context, g *gathered, generation int64) error {
	record := *g.Record
	if err := p.confirmGone(ctx, record.Volume); err != nil {
		return err
	}
	record.State, record.Generation, record.Volume, record.UID, record.Step = disk.Clean, generation, "", "", ""
	record.Cluster, record.Phase, record.Missed = p.Cluster, "", time.Time{}
	record.Attachment, record.Accepted = g.Fact.Attachment, g.Content != disk.ContentNone
	return p.Records.Put(record)
}

// removeFinalizer removes the finalizer of a volume, so that the API server removes the volume.
func (p *Provisioner) removeFinalizer(ctx context.Context, v *disk.Volume) error {
	return p.updatePV(ctx, v, func(volume *corev1.PersistentVolume) {
		volume.Finalizers = slices.DeleteFunc(volume.Finalizers, func(f string) bool { return f == wellknown.LocalVolumeFinalizer })
	})
}

// removeOtherFinalizers removes the finalizers of further volumes of the path that are being
// deleted: the disk is decided on for the first volume only.
func (p *Provisioner) removeOtherFinalizers(ctx context.Context, g *gathered) error {
	var problems error
	for i := range g.others {
		if other := &g.others[i]; other.Deleting && other.Finalized && !g.Volume.Deleting {
			problems = errors.Join(problems, p.removeFinalizer(ctx, other))
		}
	}
	return problems
}

// confirmGone asks the API server whether a volume is gone, or is not this provisioner's any
// more. It returns decide.ErrStale if not: the informer lags.
func (p *Provisioner) confirmGone(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	live, err := p.getPV(ctx, name)
	if err == nil && live != nil && localpv.Owned(live, p.Node) {
		err = decide.ErrStale
	}
	return err
}

// ConfirmClean implements clean.Checks. It returns decide.ErrStale unless the slot's volume is
// being deleted and has the finalizer, or does not exist.
func (p *Provisioner) ConfirmClean(ctx context.Context, s *decide.Slot) error {
	if s.Volume == nil {
		if err := p.findUnmanagedPV(ctx, s); err != nil {
			return err
		}
		if s.Record != nil {
			volume, err := p.foreignPVs.find(ctx, p.Client, p.Node, s.Fact.Identity, p.paths.identities())
			if err == nil && volume != "" {
				err = decide.ErrStale
			}
			if err != nil {
				return err
			}
		}
		return p.confirmGone(ctx, s.VolumeName())
	}
	live, err := p.getPV(ctx, s.Volume.Name)
	if err != nil {
		return err
	}
	if live == nil || string(live.UID) != s.Volume.UID {
		return decide.ErrStale
	}
	now, problem := localpv.VolumeOf(live, p.current().directories)
	if problem != nil || !now.Deleting || !now.Finalized || now.Phase == disk.PhaseBound || now.Binding() || now.Policy != disk.Delete {
		return decide.ErrStale
	}
	return nil
}

// recordFilesystem records which file system is on the volume's device.
func (p *Provisioner) recordFilesystem(ctx context.Context, g *gathered) error {
	record, format := *g.VolumeRecord, g.Superblock.Format
	record.Filesystem = &format
	if err := p.Records.Put(record); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Recorded the file system of a volume", logkeys.Volume, klog.KRef("", g.Volume.Name), "path", g.Path, "filesystem", format)
	return nil
}

// addLink adds the link of a volume, or mounts its file system. A mount may take longer than
// ProbeTimeout, if the journal is long: it ends in the background then.
func (p *Provisioner) addLink(ctx context.Context, g *gathered) error {
	v := g.Volume
	if v.Mounted() {
		_, err := callWithin(ctx, p, g.Path, g.conf.ProbeTimeout.Duration, func(ctx context.Context) (any, error) {
			return nil, p.Fence.Mount(ctx, *v, *g.Fact, *g.VolumeRecord.Filesystem)
		})
		if err != nil {
			return fmt.Errorf("mount volume %s: %w", v.Name, err)
		}
	} else if err := p.Fence.AddLink(v.Link, *g.Fact); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Added the link or the mount of a volume's device", logkeys.Volume, klog.KRef("", v.Name), "link", v.Link, "device", g.Fact.Device)
	return nil
}

func (p *Provisioner) removeLink(ctx context.Context, g *gathered, d decide.Decision) error {
	if err := p.removeLinkAt(g.Volume.Link); err != nil {
		return err
	}
	reason := disk.Reason("")
	if d.Problem != nil {
		reason = d.Problem.Reason
	}
	klog.FromContext(ctx).V(2).Info("Removed the link or the mount of a volume's device", logkeys.Volume, klog.KRef("", g.Volume.Name), "link", g.Volume.Link, logkeys.Reason, reason)
	return nil
}

// removeLinkAt removes a link, or detaches a mount. The latter disappears at once, but the kernel
// then writes what the file system has not written yet, which a disk that does not answer may
// hold up: the call continues in the background, and what is mounted is read again.
func (p *Provisioner) removeLinkAt(link string) error {
	done := make(chan error, 1)
	go func() { done <- p.Fence.RemoveLink(link) }()
	timeout := p.current().ProbeTimeout.Duration
	select {
	case err := <-done:
		return err
	case <-time.After(timeout):
		return disk.Problemf(disk.TimedOut, "the disk that is mounted at %s was not written within %s", link, timeout)
	}
}
