// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioner

import (
	"context"
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

	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/localdisk/decide"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/logkeys"
)

// write updates a volume, if it is still as the informer showed it.
func (a *Agent) write(ctx context.Context, v *disk.Volume, change func(*corev1.PersistentVolume)) error {
	shown := a.shown(v.Name)
	if shown == nil || string(shown.UID) != v.UID || shown.ResourceVersion != v.ResourceVersion {
		return errAgain
	}
	volume := shown.DeepCopy()
	change(volume)
	updated, err := a.Client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return errAgain // the informer is behind
	case err != nil:
		return fmt.Errorf("update volume %s: %w", v.Name, err)
	}
	a.expects.update(updated)
	return nil
}

// remember writes down a volume whose disk has no record, and on the volume which
// disk it stands for.
func (a *Agent) remember(ctx context.Context, g *gathered) error {
	v := *g.Volume
	here := g.Fact != nil && g.Fact.Problem == nil && (v.Identity == "" || g.Match() == disk.Same)
	record := disk.Record{
		Key: v.Key, HostPath: v.HostPath, Mode: v.Mode, State: disk.Published, Volume: v.Name, UID: v.UID, Generation: v.Generation, Policy: v.Policy,
		Cluster: a.Cluster, Phase: v.Seen(),
	}
	if r := g.VolumeRecord; r != nil {
		record.Root, record.Kind, record.Filesystem = r.Root, r.Kind, r.Filesystem
		if r.Volume == v.Name && (r.UID == "" || r.UID == v.UID) && r.Unclaimed() {
			record.Attachment, record.Accepted = r.Attachment, r.Accepted
		}
	}
	record.Identity = v.Identity
	if here {
		record.Identity, record.Kind = g.Fact.Identity, g.Fact.Kind
		if record.Root == nil {
			root, err := a.rootOf(ctx, g)
			if err != nil {
				return err
			}
			record.Root = root
		}
	}
	switch {
	case !record.Unclaimed(): // from now on data is expected
		record.Attachment = ""
	case here && g.Content == disk.ContentNone:
		record.Attachment = g.Fact.Attachment
	}
	if err := a.Records.Put(record); err != nil {
		return err
	}
	if v.Identity == record.Identity {
		return nil
	}
	if err := a.write(ctx, &v, func(volume *corev1.PersistentVolume) {
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
		return a.Records.Delete(v.Identity) // of another boot: it names no disk any more
	}
	return nil
}

// guard gives a volume our finalizer back.
func (a *Agent) guard(ctx context.Context, g *gathered) error {
	return a.write(ctx, g.Volume, func(volume *corev1.PersistentVolume) {
		volume.Finalizers = append(volume.Finalizers, wellknown.LocalVolumeFinalizer)
	})
}

// mark has a volume say of its disk what is so, for those who place pods.
func (a *Agent) mark(ctx context.Context, g *gathered, mark disk.Mark) error {
	err := a.write(ctx, g.Volume, func(volume *corev1.PersistentVolume) {
		if mark == disk.Unmarked {
			delete(volume.Annotations, wellknown.DiskAnnotation)
			return
		}
		metav1.SetMetaDataAnnotation(&volume.ObjectMeta, wellknown.DiskAnnotation, string(mark))
	})
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Marked a volume with how its disk stands", logkeys.Volume, klog.KRef("", g.Volume.Name), "path", g.path, "mark", mark)
	}
	return err
}

// remove deletes a volume. What was found out about it must still be so; from then on
// nothing can bind it, and our finalizer keeps it.
func (a *Agent) remove(ctx context.Context, g *gathered, d decide.Decision) error {
	v := g.Volume
	shown := a.shown(v.Name)
	if shown == nil || shown.ResourceVersion != v.ResourceVersion {
		return errAgain
	}
	err := a.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: new(types.UID(v.UID)), ResourceVersion: &v.ResourceVersion},
	})
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return errAgain
	case err != nil:
		return fmt.Errorf("delete volume %s: %w", v.Name, err)
	}
	a.expects.delete(shown)
	klog.FromContext(ctx).V(2).Info("Deleted a volume, which stays until its disk is dealt with", logkeys.Volume, klog.KObj(shown), "path", g.path)
	a.told.removed(g, d)
	return nil
}

// keep writes down that a disk's data is to be left alone.
func (a *Agent) keep(ctx context.Context, g *gathered) error {
	record := disk.Record{Key: g.Key, HostPath: g.path, State: disk.Retained, Cluster: a.Cluster}
	switch {
	case g.Volume == nil:
		record = *g.Record
		if err := a.vanished(ctx, record.Volume); err != nil {
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
	if err := a.Records.Put(record); err != nil {
		return err
	}
	if g.Volume != nil && g.Volume.Identity == "" {
		return a.release(ctx, g.Volume) // there is no way back from the volume to the record
	}
	return nil
}

// cleanLater writes down that the disk of a released volume is to be cleaned when it is back.
func (a *Agent) cleanLater(g *gathered) error {
	record := *g.VolumeRecord
	record.State, record.Phase, record.Step = disk.Cleaning, disk.PhaseReleased, ""
	return a.Records.Put(record)
}

// miss writes down that the volume of a disk is gone.
func (a *Agent) miss(ctx context.Context, g *gathered) error {
	record := *g.Record
	if err := a.vanished(ctx, record.Volume); err != nil {
		return err
	}
	record.Missed = time.Now().UTC().Round(0)
	klog.FromContext(ctx).Info("A released volume is gone before its disk was cleaned", logkeys.Volume, klog.KRef("", record.Volume), "path", g.path,
		"gracePeriod", g.conf.OrphanGracePeriod)
	return a.Records.Put(record)
}

// absolve writes down that a disk may be published.
func (a *Agent) absolve(ctx context.Context, g *gathered, generation int64) error {
	record := *g.Record
	if err := a.vanished(ctx, record.Volume); err != nil {
		return err
	}
	record.State, record.Generation, record.Volume, record.UID, record.Step = disk.Clean, generation, "", "", ""
	record.Cluster, record.Phase, record.Missed = a.Cluster, "", time.Time{}
	record.Attachment, record.Accepted = g.Fact.Attachment, g.Content != disk.ContentNone
	return a.Records.Put(record)
}

// release takes our finalizer off a volume, which lets it go.
func (a *Agent) release(ctx context.Context, v *disk.Volume) error {
	return a.write(ctx, v, func(volume *corev1.PersistentVolume) {
		volume.Finalizers = slices.DeleteFunc(volume.Finalizers, func(f string) bool { return f == wellknown.LocalVolumeFinalizer })
	})
}

// releaseOthers lets volumes go that somebody made beside the one that counts, once
// they are being deleted: what becomes of the disk is decided for that one.
func (a *Agent) releaseOthers(ctx context.Context, g *gathered) error {
	var problems error
	for i := range g.others {
		if other := &g.others[i]; other.Deleting && other.Finalized && !g.Volume.Deleting {
			problems = errors.Join(problems, a.release(ctx, other))
		}
	}
	return problems
}

// vanished makes sure that a volume is not there, or not ours any more, and that it is
// not the informer that is behind: then the error is errAgain.
func (a *Agent) vanished(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	live, err := a.asked(ctx, name)
	if err == nil && live != nil && localpv.Owned(live, a.Node) {
		err = errAgain
	}
	return err
}

// asked is a volume as the API server has it, nil if it has none.
func (a *Agent) asked(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	volume, err := a.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get volume %s: %w", name, err)
	}
	return volume, nil
}
