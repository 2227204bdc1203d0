// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioner measures one provisioner: the stowage-provisioner command, with the
// manifests' rights and under their policies, on real disks and a real control plane.
//
//	s, err := provisioner.Open(ctx, provisioner.Config{...})
//	...
//	defer s.Close()
//	measured, err := s.Latencies(ctx, 50)
//
// It requires root. Close undoes all mounts and attached devices. A Setup
// measures one thing at a time.
package provisioner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/provisioners"
)

// Config configures Open.
type Config struct {
	Binaries cluster.Binaries
	// Provisioner is the path of the stowage-provisioner command.
	Provisioner string
	// Progress receives progress messages.
	Progress func(format string, args ...any)
}

// Setup is a control plane with its defaults, and the folder for all disks.
type Setup struct {
	Config
	cluster   *cluster.Cluster
	client    kubernetes.Interface
	namespace string // of claims
	folder    string
	volumes   *volumes
	closers   []func() error
	claims    int
}

// Open starts the control plane.
func Open(ctx context.Context, config Config) (_ *Setup, err error) {
	s := &Setup{Config: config}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.folder, err = os.MkdirTemp("", "stowage-local-"); err != nil {
		return nil, err
	}
	s.later(func() error { return os.RemoveAll(s.folder) })
	s.Progress("control plane")
	if s.cluster, err = cluster.Start(ctx, cluster.Config{Binaries: config.Binaries}); err != nil {
		return nil, err
	}
	s.later(s.cluster.Stop)
	s.client = s.cluster.Client()
	if err := provisioners.Apply(ctx, s.cluster); err != nil {
		return nil, err
	}
	if s.namespace, err = s.cluster.NewNamespace(ctx, "local"); err != nil {
		return nil, err
	}
	err = s.watch(ctx)
	return s, err
}

// watch starts to record the changes of volumes.
func (s *Setup) watch(ctx context.Context) error {
	s.volumes = &volumes{histories: map[types.UID]history{}}
	factory := informers.NewSharedInformerFactory(s.client, 0)
	informer := factory.Core().V1().PersistentVolumes().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.volumes.observe(o, false) },
		UpdateFunc: func(_, o any) { s.volumes.observe(o, false) },
		DeleteFunc: func(o any) { s.volumes.observe(o, true) },
	}); err != nil {
		return err
	}
	stop := make(chan struct{})
	factory.Start(stop)
	s.later(func() error { close(stop); factory.Shutdown(); return nil })
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("watch %s: %w", kind, context.Cause(ctx))
		}
	}
	return nil
}

// later has something done by Close, the last first.
func (s *Setup) later(do func() error) { s.closers = append(s.closers, do) }

// Close undoes everything.
func (s *Setup) Close() error {
	var problems error
	for len(s.closers) > 0 {
		last := len(s.closers) - 1
		do := s.closers[last]
		s.closers = s.closers[:last]
		problems = errors.Join(problems, do())
	}
	return problems
}

// closing runs the cleanups added since, and removes them: for the end of one measurement.
func (s *Setup) closing(since int) error {
	kept := s.closers[:since]
	s.closers = s.closers[since:]
	err := s.Close()
	s.closers = kept
	return err
}

// claim has a claim bound by the PersistentVolume controller to a disk of a kind, and
// returns its volume.
func (s *Setup) claim(ctx context.Context, m *machine, kind string) (name string, bound *history, err error) {
	s.claims++
	name = "claim-" + strconv.Itoa(s.claims)
	object := builders.MakePVC(name).Namespace(s.namespace).Class(m.class(kind)).Request("1Mi").Obj()
	if kind == blockClass {
		mode := corev1.PersistentVolumeBlock
		object.Spec.VolumeMode = &mode
	}
	if _, err := s.client.CoreV1().PersistentVolumeClaims(s.namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return "", nil, fmt.Errorf("create a claim: %w", err)
	}
	bound, err = s.volumes.wait(ctx, "a volume to be bound to "+name, func(l *history) bool {
		ref := l.volume.Spec.ClaimRef
		return ref != nil && ref.Name == name && !l.since[corev1.VolumeBound].IsZero()
	})
	return name, bound, err
}

// release deletes a claim, and returns the next states of its volume: when it was Released, and
// the volume published at the same path afterwards.
func (s *Setup) release(ctx context.Context, claim string, volume *history) (released, next *history, err error) {
	if err := s.client.CoreV1().PersistentVolumeClaims(s.namespace).Delete(ctx, claim, metav1.DeleteOptions{}); err != nil {
		return nil, nil, fmt.Errorf("delete a claim: %w", err)
	}
	path := localpv.PathOf(volume.volume)
	released, err = s.volumes.wait(ctx, path+" to be Released", func(l *history) bool {
		return l.volume.UID == volume.volume.UID && !l.since[corev1.VolumeReleased].IsZero()
	})
	if err != nil {
		return nil, nil, err
	}
	next, err = s.volumes.available(ctx, path, volume.volume.UID)
	return released, next, err
}

func (s *Setup) path(elements ...string) string {
	return filepath.Join(append([]string{s.folder}, elements...)...)
}

// waitLimit bounds one wait, so that a long run ends with an error.
const waitLimit = 5 * time.Minute

// volumes records when a client first saw each volume in each phase. Safe for
// concurrent use.
type volumes struct {
	changes await.Changes

	mu        sync.Mutex
	histories map[types.UID]history
}

// history is what was observed of one volume.
type history struct {
	volume *corev1.PersistentVolume // the newest; not to be changed
	since  map[corev1.PersistentVolumePhase]time.Time
	gone   bool
}

func (v *volumes) observe(object any, gone bool) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok {
		return
	}
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	seen := history{volume: volume, since: maps.Clone(v.histories[volume.UID].since), gone: gone}
	if seen.since == nil {
		seen.since = map[corev1.PersistentVolumePhase]time.Time{}
	}
	if seen.since[volume.Status.Phase].IsZero() {
		seen.since[volume.Status.Phase] = now
	}
	v.histories[volume.UID] = seen
	v.changes.Notify()
}

// wait waits until is accepts a volume, and returns it.
func (v *volumes) wait(ctx context.Context, what string, is func(*history) bool) (found *history, err error) {
	err = v.changes.Wait(ctx, waitLimit, what, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, l := range v.histories {
			if !l.gone && is(&l) {
				found = &l
				return true
			}
		}
		return false
	})
	return found, err
}

// available waits until a path has an Available volume other than one.
func (v *volumes) available(ctx context.Context, path string, other types.UID) (*history, error) {
	return v.wait(ctx, path+" to be Available", func(l *history) bool {
		return l.volume.UID != other && l.volume.Spec.Local != nil && localpv.PathOf(l.volume) == path &&
			l.volume.DeletionTimestamp == nil && l.volume.Status.Phase == corev1.VolumeAvailable
	})
}
