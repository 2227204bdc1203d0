// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// recycler makes Released volumes Available as administrators do: it removes the
// claimRef, or deletes the volume and publishes it again. It also keeps the ledger.
type recycler struct {
	client kubernetes.Interface
	ledger *ledger
	made   map[string]*v1.PersistentVolume // as they were created
	work   chan func(context.Context) error

	cleared, replaced atomic.Int64
}

func newRecycler(client kubernetes.Interface, l *ledger, volumes []*v1.PersistentVolume) *recycler {
	r := &recycler{
		client: client, ledger: l, made: map[string]*v1.PersistentVolume{},
		work: make(chan func(context.Context) error, 1<<16), // never full: see Released
	}
	for _, volume := range volumes {
		r.made[volume.Name] = volume
	}
	return r
}

// start watches the namespace's claims and the recycler's volumes until ctx
// ends; wait joins its goroutines and returns the first error.
func (r *recycler) start(ctx context.Context, namespace string) (wait func() error) {
	ctx, cancel := context.WithCancel(ctx)
	group, working := errgroup.WithContext(ctx)
	core := r.client.CoreV1().RESTClient()
	group.Go(func() error {
		follow(working, core, "persistentvolumeclaims", namespace, &v1.PersistentVolumeClaim{}, following(r.ledger.claimSeen, r.ledger.claimGone))
		return nil
	})
	group.Go(func() error {
		follow(working, core, "persistentvolumes", metav1.NamespaceAll, &v1.PersistentVolume{}, following(r.volumeSeen, r.volumeGone))
		return nil
	})
	for range 2 {
		group.Go(func() error { return r.run(working) })
	}
	return func() error {
		cancel()
		return group.Wait()
	}
}

// follow calls the handler for all events of a resource, until
// ctx ends. Unlike a shared informer with the mutation detector it keeps no copies,
// which are costly with many events.
func follow(ctx context.Context, client cache.Getter, resource, namespace string, kind runtime.Object, handler cache.ResourceEventHandler) {
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client, resource, namespace, fields.Everything()),
		ObjectType:    kind,
		Handler:       handler,
	})
	controller.RunWithContext(ctx)
}

func (r *recycler) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case do := <-r.work:
			// A conflict or a missing object is due to another event, which
			// will have its own turn.
			if err := do(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
}

func (r *recycler) volumeSeen(volume *v1.PersistentVolume) {
	if r.made[volume.Name] == nil {
		return
	}
	r.ledger.volumeSeen(volume)
	if volume.Status.Phase != v1.VolumeReleased || volume.DeletionTimestamp != nil {
		return
	}
	volumes := r.client.CoreV1().PersistentVolumes()
	if rand.IntN(2) == 0 {
		r.work <- func(ctx context.Context) error {
			patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"claimRef":null}}`, volume.ResourceVersion)
			_, err := volumes.Patch(ctx, volume.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			if err == nil {
				r.cleared.Add(1)
			}
			return err
		}
		return
	}
	r.work <- func(ctx context.Context) error {
		return volumes.Delete(ctx, volume.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &volume.UID, ResourceVersion: &volume.ResourceVersion},
		})
	}
}

func (r *recycler) volumeGone(volume *v1.PersistentVolume) {
	made := r.made[volume.Name]
	if made == nil {
		return
	}
	r.ledger.volumeGone(volume)
	again := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: made.Name, Labels: made.Labels}, Spec: *made.Spec.DeepCopy()}
	r.work <- func(ctx context.Context) error {
		_, err := r.client.CoreV1().PersistentVolumes().Create(ctx, again, metav1.CreateOptions{})
		if err == nil {
			r.replaced.Add(1)
		}
		return err
	}
}

// following makes an event handler of typed functions.
func following[T any](seen, gone func(T)) cache.ResourceEventHandler {
	see := func(object any) {
		if typed, ok := object.(T); ok {
			seen(typed)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, object any) { see(object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if typed, ok := object.(T); ok {
				gone(typed)
			}
		},
	}
}
