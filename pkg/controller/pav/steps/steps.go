// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package steps has what the controllers of PavVolumes and PavStagings have in common: informers,
// the evaluation of a provisioner's steps, and the helper pods that run them.
package steps

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/apis/wellknown"
	"stowage.dev/stowage/pkg/loop"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/pav/pavclient"
)

const (
	// RetryFirst and RetryLast are the delays of reconciliations that failed.
	RetryFirst, RetryLast = 100 * time.Millisecond, 2 * time.Minute
	// Again is when an object is reconciled whose last write causes an event of an informer, in
	// case that something else had made the write before.
	Again = 30 * time.Second
	// Soon is when an object is reconciled whose last write the next step follows.
	Soon = time.Nanosecond
)

// Names of indexes.
const (
	ByHandle      = "driverHandle" // PersistentVolumes, PavVolumes and PavStagings, by driver and handle
	ByProvisioner = "provisioner"  // PavVolumes, PavStagings and PersistentVolumes, by provisioner
	ByNode        = "node"         // PavVolumes and PavStagings, by node
	ByOwner       = "owner"        // helper pods, by OwnerKey
)

// Config configures Steps. All fields are required.
type Config struct {
	// Client and Clients may do what manifests/controller/pav-volumes.yaml allows.
	Client  kubernetes.Interface
	Clients *pavclient.Clients
	// Informers are not started yet.
	Informers informers.SharedInformerFactory
	Events    events.EventRecorder
	// Namespace is that of ControllerRevisions, and of helper pods whose templates name none.
	Namespace string
	// ReporterImage is the image of the reporter.
	ReporterImage string
}

// Steps are shared by the controllers of one process. Its methods are safe for concurrent use.
type Steps struct {
	Config
	// Claims, PVs, Volumes, Stagings, Provisioners, Pods (helper pods) and Revisions are informers.
	// Handlers and indexes are added before Run.
	Claims, PVs                     cache.SharedIndexInformer
	Volumes, Stagings, Provisioners cache.SharedIndexInformer
	Pods, Revisions                 cache.SharedIndexInformer
	// Now is the clock.
	Now func() time.Time

	pods, revisions informers.SharedInformerFactory
}

// New returns Steps, whose informers Run starts.
func New(config Config) (*Steps, error) {
	core := config.Informers.Core().V1()
	s := &Steps{Config: config, Claims: core.PersistentVolumeClaims().Informer(), PVs: core.PersistentVolumes().Informer(), Now: time.Now}
	s.pods = informers.NewSharedInformerFactoryWithOptions(config.Client, 0, informers.WithTransform(loop.WithoutManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = wellknown.PavOwnerLabel }))
	s.revisions = informers.NewSharedInformerFactoryWithOptions(config.Client, 0, informers.WithNamespace(config.Namespace), informers.WithTransform(loop.WithoutManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = wellknown.PavProvisionerLabel }))
	s.Pods, s.Revisions = s.pods.Core().V1().Pods().Informer(), s.revisions.Apps().V1().ControllerRevisions().Informer()
	var volumes, stagings, provisioners error
	s.Volumes, volumes = pavclient.NewInformer(config.Clients.Volumes, &stowage.PavVolume{}, fields.Everything())
	s.Stagings, stagings = pavclient.NewInformer(config.Clients.Stagings, &stowage.PavStaging{}, fields.Everything())
	s.Provisioners, provisioners = pavclient.NewInformer(config.Clients.Provisioners, &stowage.PavProvisioner{}, fields.Everything())
	if err := errors.Join(volumes, stagings, provisioners); err != nil {
		return nil, err
	}
	if err := errors.Join(s.index(), s.tally()); err != nil {
		return nil, fmt.Errorf("index and count the objects of PaV: %w", err)
	}
	return s, nil
}

func (s *Steps) index() error {
	return errors.Join(
		s.PVs.AddIndexers(cache.Indexers{
			ByHandle: Indexed(func(pv *corev1.PersistentVolume) string {
				if pv.Spec.CSI == nil {
					return ""
				}
				return HandleKey(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)
			}),
			ByProvisioner: Indexed(func(pv *corev1.PersistentVolume) string {
				if pv.Spec.CSI == nil {
					return ""
				}
				return pv.Spec.CSI.Driver
			}),
		}),
		s.Pods.AddIndexers(cache.Indexers{ByOwner: Indexed(func(pod *corev1.Pod) string {
			if owner := metav1.GetControllerOf(pod); owner != nil {
				return OwnerKey(owner.Kind, owner.Name)
			}
			return ""
		})}),
		s.Volumes.AddIndexers(cache.Indexers{
			ByHandle:      Indexed(func(v *stowage.PavVolume) string { return HandleKey(v.Spec.Provisioner, v.Status.Handle) }),
			ByProvisioner: Indexed(func(v *stowage.PavVolume) string { return v.Spec.Provisioner }),
			ByNode:        Indexed(func(v *stowage.PavVolume) string { return v.Spec.NodeName }),
		}),
		s.Stagings.AddIndexers(cache.Indexers{
			ByHandle:      Indexed(func(v *stowage.PavStaging) string { return HandleKey(v.Spec.Provisioner, v.Spec.Handle) }),
			ByProvisioner: Indexed(func(v *stowage.PavStaging) string { return v.Spec.Provisioner }),
			ByNode:        Indexed(func(v *stowage.PavStaging) string { return v.Spec.NodeName }),
		}),
	)
}

// Indexed indexes objects of a type by a key; objects with an empty key are not in the index.
func Indexed[T any](key func(*T) string) cache.IndexFunc {
	return func(object any) ([]string, error) {
		if typed, ok := object.(*T); ok && key(typed) != "" {
			return []string{key(typed)}, nil
		}
		return nil, nil
	}
}

// HandleKey is the key of ByHandle; empty without a handle.
func HandleKey(driver, handle string) string {
	if handle == "" {
		return ""
	}
	return driver + "^" + handle
}

// OwnerKey is the key of ByOwner.
func OwnerKey(kind, name string) string { return kind + "/" + name }

// Controller does work until ctx ends.
type Controller interface {
	Run(ctx context.Context) error
}

// Run starts the informers, and then the controllers; it returns after all have ended with ctx. The
// informers of Config must be synced before.
func (s *Steps) Run(ctx context.Context, controllers ...Controller) error {
	informing, cancel := context.WithCancel(ctx)
	defer metrics.ResetPav() // after the informers have ended
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	own := []cache.SharedIndexInformer{s.Volumes, s.Stagings, s.Provisioners}
	for _, informer := range own {
		running.Go(func() { informer.RunWithContext(informing) })
	}
	stop, err := loop.Start(ctx, s.pods, s.revisions)
	defer stop()
	if err != nil {
		return err
	}
	for _, informer := range own {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("list PavProvisioners, PavVolumes and PavStagings: %w", context.Cause(ctx))
		}
	}
	errs := make([]error, len(controllers))
	var working sync.WaitGroup
	for i, controller := range controllers {
		working.Go(func() { errs[i] = controller.Run(ctx) })
	}
	working.Wait()
	return errors.Join(errs...)
}
