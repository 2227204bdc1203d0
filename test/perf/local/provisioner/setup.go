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
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/pkg/testing/builders"
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
	s.volumes = newVolumes()
	factory := informers.NewSharedInformerFactory(s.client, 0)
	informer := factory.Core().V1().PersistentVolumes().Informer()
	if _, err := informer.AddEventHandler(s.volumes); err != nil {
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
