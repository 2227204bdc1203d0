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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"stowage.dev/stowage/pkg/apis/provisioner"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
)

// create publishes a disk. Its record says Published before the volume exists: from
// then on the disk is dirty, whatever happens.
func (p *Provisioner) create(ctx context.Context, g *gathered, generation int64) error {
	volume, err := p.draft(g, generation)
	if err != nil {
		return err
	}
	if err := p.findForeignPV(ctx, g); err != nil {
		return err
	}
	if err := p.cleans.withdraw(g.Fact.Identity); err != nil {
		return err
	}
	before := g.Record
	record := disk.Record{
		Identity: g.Fact.Identity, Key: g.Key, HostPath: g.path, Kind: g.Fact.Kind, Mode: disk.Mode(*volume.Spec.VolumeMode),
		State: disk.Published, Volume: volume.Name, Generation: generation, Policy: disk.Policy(volume.Spec.PersistentVolumeReclaimPolicy),
		Cluster: p.Cluster, Attachment: g.Fact.Attachment, Accepted: accepted(g),
	}
	if record.Root, err = p.rootOf(ctx, g); err != nil {
		return err
	}
	if record.Filesystem, err = p.filesystemOf(ctx, g, record.Mode); err != nil {
		return err
	}
	if err := p.Records.Put(record); err != nil {
		return err
	}
	if old := g.Predecessor(); old != nil && old.Identity.Weak() && record.Identity.Weak() && record.Identity.Compare(old.Identity) == disk.Unproven {
		if err := p.Records.Delete(old.Identity); err != nil { // of an earlier boot: it identifies no disk any more
			return err
		}
	}
	created, err := p.createUntilKnown(ctx, volume)
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err):
		return p.nextGeneration(ctx, record)
	case ambiguous(err) && !p.confirmNotCreated(ctx, err, volume.Name):
		return fmt.Errorf("create volume %s: %w", volume.Name, err)
	default: // refused, so the disk is as it was
		return errors.Join(fmt.Errorf("create volume %s: %w", volume.Name, err), p.restoreRecord(record.Identity, before, generation, g))
	}
	p.paths.expectCreated(created)
	p.cleans.forget(g.path)
	klog.FromContext(ctx).V(2).Info("Published", logkeys.Volume, klog.KObj(created), "path", g.path)
	record.UID, record.Phase = string(created.UID), disk.PhaseAvailable
	p.status.published(created, g)
	return p.Records.Put(record)
}

// accepted reports whether the disk is published with the data that it may hold. That of a
// disk without a record was acknowledged, or is published by the class.
func accepted(g *gathered) bool {
	if g.Record != nil && g.Stayed {
		return g.Record.Accepted
	}
	return g.Content != disk.ContentNone && g.Content != disk.ContentSampled
}

// draft is the volume to create.
func (p *Provisioner) draft(g *gathered, generation int64) (*corev1.PersistentVolume, error) {
	class := g.conf.classes[g.Key.Class]
	if class == nil {
		return nil, errStale
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
		FSType: class.FSType, Labels: g.conf.LabelsForPV, Naming: naming(class.VolumeName),
	}
	volume, problem := localpv.Volume(localpv.Request{Node: node, Class: storageClass, Disk: *g.Fact, Offer: offer, Generation: generation})
	if problem != nil {
		return nil, problem
	}
	return volume, nil
}

// createUntilKnown creates a volume, again and again until it is known whether it
// exists: a request whose answer was lost may have been carried out. It gives up, with
// an error that is ambiguous, before it has kept a worker from other slots for long.
func (p *Provisioner) createUntilKnown(ctx context.Context, volume *corev1.PersistentVolume) (created *corev1.PersistentVolume, err error) {
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 9} // half a minute
	stopped := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		created, err = p.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // by an earlier request, perhaps, which the informer does not show yet
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

// ours says whether a volume is what we asked for.
func (p *Provisioner) checkCreated(found, asked *corev1.PersistentVolume) error {
	if localpv.Owned(found, p.Node) && found.Annotations[wellknown.DiskIdentityAnnotation] == asked.Annotations[wellknown.DiskIdentityAnnotation] &&
		found.DeletionTimestamp == nil {
		return nil
	}
	return apierrors.NewAlreadyExists(corev1.Resource("persistentvolumes"), asked.Name)
}

// ambiguous says whether a request with such an error may have been carried out, or
// may be if it is sent again.
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

// unmade says whether a volume was not made although the error is ambiguous: the API
// server did answer, and has no such volume. Should it turn up yet, it is found by its
// name, which the next request asks for again. Without this, a webhook that is broken
// would have every disk cleaned again and again.
func (p *Provisioner) confirmNotCreated(ctx context.Context, err error, name string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) {
		return false
	}
	live, err := p.getPV(ctx, name)
	return err == nil && live == nil
}

// next goes on to the next generation: the name is taken, by a volume that is not of
// this disk or is on its way out.
func (p *Provisioner) nextGeneration(ctx context.Context, record disk.Record) error {
	klog.FromContext(ctx).V(2).Info("The name of the volume is taken, the next one will be tried", logkeys.Volume, klog.KRef("", record.Volume))
	record.State, record.Volume, record.Generation = disk.Clean, "", record.Generation+1
	if err := p.Records.Put(record); err != nil {
		return err
	}
	return errStale
}

// restore makes a disk's record what it was before its volume was refused.
func (p *Provisioner) restoreRecord(identity disk.Identity, before *disk.Record, generation int64, g *gathered) error {
	if before == nil {
		return p.Records.Delete(identity)
	}
	record := *before
	record.State, record.Generation, record.Key, record.HostPath = disk.Clean, generation, g.Key, g.path
	return p.Records.Put(record)
}

func naming(name provisioner.VolumeName) localpv.Naming {
	if name == provisioner.VolumeNameReference {
		return localpv.Reference
	}
	return localpv.Hashed
}
