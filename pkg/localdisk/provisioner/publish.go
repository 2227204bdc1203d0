// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
)

// create publishes a disk. Its record is Published before the volume exists: from then on the
// disk is dirty, even if the request fails.
func (p *Provisioner) create(ctx context.Context, g *gathered, generation int64) error {
	volume, err := p.draft(g, generation)
	if err != nil {
		return err
	}
	if err := p.findUnmanagedPV(ctx, &g.Slot); err != nil {
		return err
	}
	if err := p.cleans.Withdraw(g.Fact.Identity); err != nil {
		return err
	}
	before := g.Record
	record := disk.Record{
		Identity: g.Fact.Identity, Key: g.Key, HostPath: g.Path, Kind: g.Fact.Kind, Mode: disk.Mode(*volume.Spec.VolumeMode),
		State: disk.Published, Volume: volume.Name, Generation: generation, Policy: disk.Policy(volume.Spec.PersistentVolumeReclaimPolicy),
		Cluster: p.Cluster, Attachment: g.Fact.Attachment, Accepted: accepted(g),
	}
	if record.Root, err = p.RootOf(ctx, &g.Slot); err != nil {
		return err
	}
	if record.Filesystem, err = p.filesystemOf(ctx, g, record.Mode); err != nil {
		return err
	}
	if g.Fact.Kind == disk.Device && g.MountedHere && (record.Filesystem == nil || *record.Filesystem != g.Superblock.Format) {
		return decide.ErrStale
	}
	if err := p.putFirst(record, g); err != nil {
		return err
	}
	pv, err := p.createUntilKnown(ctx, volume)
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err):
		return p.nextGeneration(ctx, record)
	case ambiguous(err) && !p.confirmNotCreated(ctx, err, volume.Name):
		return fmt.Errorf("create volume %s: %w", volume.Name, err)
	default: // rejected, so the disk is not in use
		return errors.Join(fmt.Errorf("create volume %s: %w", volume.Name, err), p.restoreRecord(record.Identity, before, generation, g))
	}
	p.paths.expect(created, pv)
	p.cleans.Forget(g.Path)
	klog.FromContext(ctx).V(2).Info("Published a disk", logkeys.Volume, klog.KObj(pv), "path", g.Path)
	record.UID, record.Phase = string(pv.UID), disk.PhaseAvailable
	p.status.Published(pv, &g.Slot)
	return p.Records.Put(record)
}

// putFirst writes a record of a disk that had none, or another one. That of an earlier boot, which
// identifies no disk any more, is deleted.
func (p *Provisioner) putFirst(record disk.Record, g *gathered) error {
	if err := p.Records.Put(record); err != nil {
		return err
	}
	if old := g.Predecessor(); old != nil && old.Identity.Weak() && record.Identity.Weak() && record.Identity.Compare(old.Identity) == disk.Unproven {
		return p.Records.Delete(old.Identity)
	}
	return nil
}

// makeFilesystem makes a file system on a blank disk, in the background. Its UUID is recorded
// before: what an interrupted mkfs leaves is recognized by it.
func (p *Provisioner) makeFilesystem(ctx context.Context, g *gathered, generation int64) error {
	if err := p.findUnmanagedPV(ctx, &g.Slot); err != nil {
		return err
	}
	if err := p.cleans.Withdraw(g.Fact.Identity); err != nil {
		return err
	}
	record := disk.Record{
		Identity: g.Fact.Identity, Key: g.Key, HostPath: g.Path, Kind: g.Fact.Kind, Mode: disk.Filesystem, State: disk.Clean,
		Generation: generation, Cluster: p.Cluster, Attachment: g.Fact.Attachment,
	}
	if r := g.Record; r != nil && r.Formatting != nil && r.Formatting.Type == g.FSType {
		record.Formatting = r.Formatting
	} else {
		record.Formatting = &disk.Format{Type: g.FSType, UUID: string(uuid.NewUUID())}
	}
	if err := p.putFirst(record, g); err != nil {
		return err
	}
	p.formats.Start(ctx, &g.Slot, record)
	return nil
}

// accepted reports whether the disk is published with the data that it may hold. That of a
// disk without a record was acknowledged, or is published by the class.
func accepted(g *gathered) bool {
	if g.Record != nil && g.Stayed {
		return g.Record.Accepted
	}
	return g.Content != disk.ContentNone && g.Content != disk.ContentSampled
}

// draft returns the volume to create.
func (p *Provisioner) draft(g *gathered, generation int64) (*corev1.PersistentVolume, error) {
	class := g.conf.class(g.Key.Class)
	if class == nil {
		return nil, decide.ErrStale
	}
	storageClass, err := p.factory.Storage().V1().StorageClasses().Lister().Get(g.Key.Class)
	if apierrors.IsNotFound(err) {
		return nil, disk.Problemf(disk.ClassMissing, "there is no StorageClass %q: create it, with volumeBindingMode %s", g.Key.Class, storagev1.VolumeBindingWaitForFirstConsumer)
	} else if err != nil {
		return nil, fmt.Errorf("get StorageClass %s: %w", g.Key.Class, err)
	}
	p.mu.Lock()
	node := *p.node
	p.mu.Unlock()
	offer := localpv.Offer{
		Mode: disk.Mode(class.VolumeMode), AccessModes: []corev1.PersistentVolumeAccessMode{class.AccessMode},
		FSType: class.FSType, Mounted: class.Mount == provisioner.MountAgent, Labels: g.conf.LabelsForPV, Naming: naming(class.VolumeName),
	}
	volume, problem := localpv.Volume(localpv.Request{Node: node, Class: storageClass, Disk: *g.Fact, Offer: offer, Generation: generation})
	if problem != nil {
		return nil, problem
	}
	return volume, nil
}

// filesystemOf returns Record.Filesystem of a disk that is about to be published.
func (p *Provisioner) filesystemOf(ctx context.Context, g *gathered, mode disk.Mode) (*disk.Format, error) {
	if g.Fact.Kind != disk.Device || mode != disk.Filesystem {
		return nil, nil
	}
	found, err := p.superblockOf(ctx, g)
	if err != nil || found.Other != "" {
		return nil, err
	}
	return &found.Format, nil
}

// createUntilKnown creates a volume, and retries until it is known whether the volume exists: a
// request without an answer may have succeeded. After half a minute it returns an ambiguous
// error, so that the worker can process other paths.
func (p *Provisioner) createUntilKnown(ctx context.Context, volume *corev1.PersistentVolume) (created *corev1.PersistentVolume, err error) {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 9}
	stopped := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		created, err = p.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // maybe by an earlier request that the informer does not show yet
			if created, err = p.Client.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{}); err == nil {
				err = p.checkCreated(created, volume)
			}
		}
		return !ambiguous(err), nil
	})
	if stopped != nil {
		return nil, errors.Join(stopped, err)
	}
	return created, err
}

// checkCreated returns an error unless a volume is the requested one.
func (p *Provisioner) checkCreated(found, asked *corev1.PersistentVolume) error {
	if localpv.Owned(found, p.Node) && found.Annotations[wellknown.DiskIdentityAnnotation] == asked.Annotations[wellknown.DiskIdentityAnnotation] &&
		found.DeletionTimestamp == nil {
		return nil
	}
	return apierrors.NewAlreadyExists(corev1.Resource("persistentvolumes"), asked.Name)
}

// ambiguous reports whether a request with this error may have succeeded, or may succeed if it
// is sent again.
func ambiguous(err error) bool {
	if err == nil {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no answer
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnexpectedServerError(err)
}

// confirmNotCreated reports whether a volume does not exist although the error is ambiguous:
// the API server answered, and has no such volume. If it is created late, the next request,
// which uses the same name, finds it. Without this check a webhook that fails would cause
// repeated cleans of every disk.
func (p *Provisioner) confirmNotCreated(ctx context.Context, err error, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) {
		return false
	}
	live, err := p.getPV(ctx, name)
	return err == nil && live == nil
}

// nextGeneration records the next generation: the name is in use, by a volume that is of
// another disk or is being deleted.
func (p *Provisioner) nextGeneration(ctx context.Context, record disk.Record) error {
	klog.FromContext(ctx).V(2).Info("Volume name in use; trying the next one", logkeys.Volume, klog.KRef("", record.Volume))
	record.State, record.Volume, record.Generation = disk.Clean, "", record.Generation+1
	if err := p.Records.Put(record); err != nil {
		return err
	}
	return decide.ErrStale
}

// restoreRecord restores a disk's record after its volume was rejected.
func (p *Provisioner) restoreRecord(identity disk.Identity, before *disk.Record, generation int64, g *gathered) error {
	if before == nil {
		return p.Records.Delete(identity)
	}
	record := *before
	record.State, record.Generation, record.Key, record.HostPath = disk.Clean, generation, g.Key, g.Path
	return p.Records.Put(record)
}

func naming(name provisioner.VolumeName) localpv.Naming {
	if name == provisioner.VolumeNameReference {
		return localpv.Reference
	}
	return localpv.Hashed
}
