// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeservice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/logkeys"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/pav/nodeservice/stagingdir"
	"stowage.dev/stowage/pkg/pav/report"
)

// volume is a volume on this node.
type volume struct {
	*Service
	driver, handle string
}

// key identifies the volume in names of directories.
func (v volume) key() string { return stowage.PavVolumeKey(v.driver, v.handle) }

// name is that of its PavStaging.
func (v volume) name() string { return stowage.PavStagingName(v.driver, v.handle, v.Node) }

// stage has the volume staged, and waits until it is. kind is what it has to be.
func (v volume) stage(ctx context.Context, kind report.Kind) error {
	staging, err := v.request(ctx)
	if err != nil {
		return err
	}
	before := staging.Status.LastError
	for {
		changed := v.changes.next(v.name())
		current, err := v.latest(ctx, staging)
		switch {
		case err != nil:
			return err
		case current == nil || current.DeletionTimestamp != nil || current.UID != staging.UID:
			return v.missing()
		case v.isStaged(current):
			err = v.identify(ctx, current, kind)
			if errors.Is(err, errReplaced) {
				err = v.restage(ctx, current)
			} else if !apierrors.IsConflict(err) {
				return err
			}
			if err != nil && !apierrors.IsConflict(err) {
				return err
			}
			if staging, err = v.get(ctx); err != nil || staging == nil { // the informer lags behind
				return errors.Join(err, v.missing())
			}
			continue
		case newer(current.Status.LastError, before):
			return errors.New(current.Status.LastError.Message)
		}
		staging = current
		select {
		case <-changed:
		case <-ctx.Done():
			return v.waits(current)
		}
	}
}

func (v volume) missing() error {
	return fmt.Errorf("PavStaging %s was deleted while the volume was staged", v.name())
}

// latest returns the PavStaging of the informer, or the given one as long as the informer does not have it.
func (v volume) latest(ctx context.Context, known *stowage.PavStaging) (*stowage.PavStaging, error) {
	current := v.staging(v.name())
	if current != nil && current.UID == known.UID && newerVersion(known, current) {
		return known, nil
	}
	if current != nil {
		return current, nil
	}
	return v.get(ctx)
}

// newerVersion reports whether a is a later version than b of the same object.
func newerVersion(a, b *stowage.PavStaging) bool {
	return len(a.ResourceVersion) > len(b.ResourceVersion) || len(a.ResourceVersion) == len(b.ResourceVersion) && a.ResourceVersion > b.ResourceVersion
}

// newer reports whether an error is another one than before.
func newer(after, before *stowage.PavVolumeError) bool {
	return after != nil && (before == nil || *after != *before)
}

// isStaged reports whether the volume is staged in this boot of the node.
func (v volume) isStaged(s *stowage.PavStaging) bool {
	return s.Status.Phase == stowage.PavStagingStaged && s.Status.BootID == s.Spec.BootID && v.ofThisBoot(s) && s.DeletionTimestamp == nil
}

// ofThisBoot reports whether the volume was requested in this boot of the node. If it was staged again since,
// spec.bootID has a number after the boot.
func (v volume) ofThisBoot(s *stowage.PavStaging) bool {
	boot, _, _ := strings.Cut(s.Spec.BootID, "/")
	return boot == v.BootID
}

// restage has a volume staged again that the node has lost, as if the node had rebooted: what was mounted
// is not there any more. It fails while a pod has the volume.
func (v volume) restage(ctx context.Context, s *stowage.PavStaging) error {
	if err := v.files.do(ctx, v.key(), func() error { return v.unused(v.key()) }); err != nil {
		return fmt.Errorf("%w: %w", errReplaced, err)
	}
	_, err := v.update(ctx, s, func(spec *stowage.PavStagingSpec) {
		spec.BootID = fmt.Sprintf("%s/%d", v.BootID, s.Status.StagedAttempt)
	})
	return err
}

// waits describes what a volume waits for.
func (v volume) waits(s *stowage.PavStaging) error {
	message := "the controller of PavProvisioners has not processed PavStaging " + v.name()
	for _, kind := range []string{stowage.ConditionUnstageable, stowage.ConditionStaged} {
		if c := meta.FindStatusCondition(s.Status.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			message = fmt.Sprintf("volume %s is %s: %s", v.handle, strings.ToLower(string(s.Status.Phase)), c.Reason)
			if c.Message != "" {
				message += ": " + c.Message
			}
			break
		}
	}
	return errors.New(message)
}

// get reads the PavStaging from the API server; nil if it does not exist.
func (v volume) get(ctx context.Context) (*stowage.PavStaging, error) {
	staging, err := v.Clients.Stagings.Get(ctx, v.name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get PavStaging %s: %w", v.name(), err)
	}
	return staging, nil
}

// request returns the PavStaging of this boot, after creating or changing it.
func (v volume) request(ctx context.Context) (*stowage.PavStaging, error) {
	staging := v.staging(v.name())
	for {
		switch {
		case staging == nil:
			if err := v.files.do(ctx, v.key(), func() error { return v.removeOld(ctx, v.key()) }); err != nil {
				return nil, err
			}
			created, err := v.create(ctx)
			if !apierrors.IsAlreadyExists(err) {
				return created, err
			}
		case staging.DeletionTimestamp != nil:
			if err := v.waitGone(ctx, staging); err != nil {
				return nil, err
			}
			staging = nil
			continue
		case v.ofThisBoot(staging):
			return staging, nil
		default:
			changed, err := v.update(ctx, staging, func(spec *stowage.PavStagingSpec) { spec.BootID = v.BootID })
			if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return changed, err
			}
		}
		var err error
		if staging, err = v.get(ctx); err != nil { // the informer lags behind
			return nil, err
		}
	}
}

// create creates the PavStaging. Nothing of an earlier one is left on the node.
func (v volume) create(ctx context.Context) (*stowage.PavStaging, error) {
	staging, err := v.Clients.Stagings.Create(ctx, &stowage.PavStaging{
		ObjectMeta: metav1.ObjectMeta{Name: v.name()},
		Spec:       stowage.PavStagingSpec{Provisioner: v.driver, Handle: v.handle, NodeName: v.Node, BootID: v.BootID},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create PavStaging %s: %w", v.name(), err)
	}
	klog.FromContext(ctx).V(2).Info("Requested a volume", "staging", v.name(), logkeys.Provisioner, v.driver, "handle", v.handle)
	return staging, nil
}

// update changes the spec of one version of the PavStaging.
func (v volume) update(ctx context.Context, staging *stowage.PavStaging, change func(*stowage.PavStagingSpec)) (*stowage.PavStaging, error) {
	changed := staging.DeepCopy()
	change(&changed.Spec)
	changed.Status = stowage.PavStagingStatus{} // not written; the informer's is not whole
	updated, err := v.Clients.Stagings.Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update PavStaging %s: %w", v.name(), err)
	}
	return updated, nil
}

// removeOld removes the directories of all earlier stagings of a volume, unless it has a PavStaging.
func (s *Service) removeOld(ctx context.Context, key string) error {
	uids, err := s.Dirs.UIDs(key)
	if err != nil || len(uids) == 0 {
		return err
	}
	name := key + "." + s.Node // the informer may not have it yet
	if _, err := s.Clients.Stagings.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return wrap(err, "get PavStaging %s", name)
	}
	if err := s.unused(key); err != nil {
		return err
	}
	for _, uid := range uids {
		if err := s.Dirs.Remove(ctx, key, uid); err != nil {
			return err
		}
	}
	return nil
}

// unused returns an error if a volume is mounted for a pod.
func (s *Service) unused(key string) error {
	targets, err := s.Publisher.Targets(key)
	if err != nil {
		return err
	}
	if len(targets) > 0 {
		return fmt.Errorf("the volume is still mounted for a pod at %s", strings.Join(targets, ", "))
	}
	return nil
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// identify compares /pav/volume with what it was before, or records it.
func (v volume) identify(ctx context.Context, s *stowage.PavStaging, kind report.Kind) error {
	var found stowage.StagedVolume
	err := v.examine(ctx, func(context.Context) error {
		opened, err := v.Dirs.Open(v.attempt(s))
		if err != nil {
			return err
		}
		defer opened.Close()
		if err := opened.Report().Fits(kind, 0); err != nil {
			return err
		}
		found = opened.Staged(s.Status.StagedAttempt)
		if s.Spec.Volume != nil && s.Spec.Volume.Attempt == found.Attempt {
			return same(s.Spec.Volume, found)
		}
		return errors.Join(v.Dirs.Allowed(opened, s.Status.AllowedDevices), v.Dirs.Unheld(opened))
	})
	if err != nil || s.Spec.Volume != nil && s.Spec.Volume.Attempt == found.Attempt {
		return err
	}
	_, err = v.update(ctx, s, func(spec *stowage.PavStagingSpec) { spec.Volume = &found })
	return err
}

func (v volume) attempt(s *stowage.PavStaging) stagingdir.Attempt {
	return stagingdir.Attempt{Volume: v.key(), UID: string(s.UID), Number: s.Status.StagedAttempt}
}

var errReplaced = errors.New("/pav/volume is another file than when the volume was staged: its staging pod may have ended or replaced it, or what was mounted there is not any more")

// same returns errReplaced if /pav/volume is not what it was.
func same(was *stowage.StagedVolume, is stowage.StagedVolume) error {
	if was == nil || *was != is {
		return errReplaced
	}
	return nil
}

// unstage has the volume unstaged, and waits until it is.
func (v volume) unstage(ctx context.Context) error {
	// Not files.do: a file system that hangs does so until its staging pod is deleted.
	if err := v.unused(v.key()); err != nil {
		return err
	}
	staging := v.staging(v.name())
	if staging == nil {
		var err error
		if staging, err = v.get(ctx); err != nil {
			return err
		}
	}
	if staging == nil {
		return v.files.do(ctx, v.key(), func() error { return v.removeOld(ctx, v.key()) })
	}
	if staging.DeletionTimestamp == nil {
		err := v.Clients.Stagings.Delete(ctx, v.name(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &staging.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete PavStaging %s: %w", v.name(), err)
		}
		klog.FromContext(ctx).V(2).Info("Requested the end of a volume", "staging", v.name())
	}
	if err := v.waitGone(ctx, staging); err != nil {
		return err
	}
	return v.files.do(ctx, v.key(), func() error { return v.Dirs.Remove(ctx, v.key(), string(staging.UID)) })
}

// waitGone waits until a PavStaging does not exist.
func (v volume) waitGone(ctx context.Context, staging *stowage.PavStaging) error {
	v.clears.Add(v.name())
	for {
		changed := v.changes.next(v.name())
		current := v.staging(v.name())
		if current == nil || current.UID != staging.UID {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return v.waits(current)
		}
	}
}

// uncleared reports whether the controller waits for the node to confirm that nothing of a volume is left.
func uncleared(s *stowage.PavStaging) bool {
	return s.Status.Phase == stowage.PavStagingClearing && s.Spec.ClearedAttempt < s.Status.StagedAttempt
}

// clear confirms that nothing of a volume is left, and removes the directories of one that has no
// PavStaging. It is repeated with a delay, and whenever the mounts of the node change.
func (s *Service) clear(ctx context.Context, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, retryLast)
	defer cancel()
	staging := s.staging(name)
	if staging == nil {
		key := strings.TrimSuffix(name, "."+s.Node)
		return 0, wrap(s.files.do(ctx, key, func() error { return s.removeOld(ctx, key) }), "remove the directories of a volume")
	}
	if !uncleared(staging) {
		return 0, nil
	}
	v := volume{s, staging.Spec.Provisioner, staging.Spec.Handle}
	err := v.files.do(ctx, v.key(), func() error {
		if err := v.unused(v.key()); err != nil {
			return err
		}
		return v.Dirs.Clear(v.key(), string(staging.UID), staging.Status.StagedAttempt, staging.Spec.Volume)
	})
	if err != nil {
		return 0, fmt.Errorf("clear volume %s: %w", v.handle, err)
	}
	_, err = v.update(ctx, staging, func(spec *stowage.PavStagingSpec) { spec.ClearedAttempt = staging.Status.StagedAttempt })
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("%w: %w", loop.ErrStale, err)
	}
	return 0, err
}
