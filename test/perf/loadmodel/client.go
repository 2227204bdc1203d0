// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	core "k8s.io/client-go/testing"

	"stowage.dev/stowage/test/perf/loadmodel/idle"
)

// newClient has the API requests of the plugin and its binder: writes of
// volumes and claims on the version that was read, and a review of rights, which grants
// everything. All others panic. Safe for concurrent use.
func (c *cluster) newClient() *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("create", "selfsubjectaccessreviews", func(a core.Action) (bool, runtime.Object, error) {
		review := a.(core.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		review.Status.Allowed = true
		return true, review, nil
	})
	client.AddReactor("update", "persistentvolumes", func(a core.Action) (bool, runtime.Object, error) {
		pv := a.(core.UpdateAction).GetObject().(*v1.PersistentVolume)
		// No volume is bound to a second claim.
		if stored, ok, err := c.volumes.GetStore().Get(pv); err == nil && ok {
			ref := stored.(*v1.PersistentVolume).Spec.ClaimRef
			if ref != nil && pv.Spec.ClaimRef != nil && ref.UID != pv.Spec.ClaimRef.UID {
				c.recordGivenTwice(pv.Name)
			}
		}
		return true, pv, c.write(c.volumes, pv)
	})
	client.AddReactor("update", "persistentvolumeclaims", func(a core.Action) (bool, runtime.Object, error) {
		claim := a.(core.UpdateAction).GetObject()
		return true, claim, c.write(c.claims, claim)
	})
	client.AddReactor("*", "*", func(a core.Action) (bool, runtime.Object, error) {
		panic(fmt.Sprintf("unexpected request: %s %s", a.GetVerb(), a.GetResource().Resource))
	})
	return client
}

// write stores an object, which it takes over, if it was changed in its newest version. The
// idle.Event waits for the model to deliver it.
func (c *cluster) write(to *idle.Informer, object runtime.Object) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := object.(metav1.Object)
	stored, ok, err := to.GetStore().Get(object)
	switch {
	case err != nil:
		return err
	case !ok:
		return apierrors.NewNotFound(schema.GroupResource{}, sent.GetName())
	case stored.(metav1.Object).GetResourceVersion() != sent.GetResourceVersion():
		return apierrors.NewConflict(schema.GroupResource{}, sent.GetName(), fmt.Errorf("version %s was not the newest", sent.GetResourceVersion()))
	}
	c.pending = append(c.pending, c.store(to, stored, object))
	return nil
}
