// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"

	"stowage.dev/stowage/test/perf/loadmodel/idle"
)

// client has the API requests of the plugin and its binder: writes of
// volumes and claims on the version that was read. All others panic. Safe for
// concurrent use.
type client struct {
	kubernetes.Interface
	*cluster
}

func (c client) CoreV1() core.CoreV1Interface                            { return coreClient{cluster: c.cluster} }
func (c client) AuthorizationV1() authorization.AuthorizationV1Interface { return rights{} }

type coreClient struct {
	core.CoreV1Interface
	*cluster
}

func (c coreClient) PersistentVolumes() core.PersistentVolumeInterface {
	return volumeClient{cluster: c.cluster}
}

func (c coreClient) PersistentVolumeClaims(string) core.PersistentVolumeClaimInterface {
	return claimClient{cluster: c.cluster}
}

// Nodes are never requested here: none is lost.
func (c coreClient) Nodes() core.NodeInterface { return nodeClient{} }

type nodeClient struct{ core.NodeInterface }

type volumeClient struct {
	core.PersistentVolumeInterface
	*cluster
}

// Update also checks that no volume is bound to a second claim.
func (c volumeClient) Update(_ context.Context, pv *v1.PersistentVolume, _ metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	if stored, ok, err := c.volumes.GetStore().Get(pv); err == nil && ok {
		ref := stored.(*v1.PersistentVolume).Spec.ClaimRef
		if ref != nil && pv.Spec.ClaimRef != nil && ref.UID != pv.Spec.ClaimRef.UID {
			c.recordGivenTwice(pv.Name)
		}
	}
	return written(c.cluster, c.volumes, pv)
}

func (c volumeClient) UpdateStatus(_ context.Context, pv *v1.PersistentVolume, _ metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	return written(c.cluster, c.volumes, pv)
}

type claimClient struct {
	core.PersistentVolumeClaimInterface
	*cluster
}

func (c claimClient) Update(_ context.Context, claim *v1.PersistentVolumeClaim, _ metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	return written(c.cluster, c.claims, claim)
}

func (c claimClient) UpdateStatus(_ context.Context, claim *v1.PersistentVolumeClaim, _ metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	return written(c.cluster, c.claims, claim)
}

// written accepts a write if it was made on the newest version. The idle.Event waits
// for the model to deliver it. The binder passes objects that it owns, so
// the answer is the object sent.
func written[T interface {
	metav1.Object
	runtime.Object
}](c *cluster, to *idle.Informer, object T) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none T
	stored, ok, err := to.GetStore().Get(object)
	switch {
	case err != nil:
		return none, err
	case !ok:
		return none, apierrors.NewNotFound(schema.GroupResource{}, object.GetName())
	case stored.(metav1.Object).GetResourceVersion() != object.GetResourceVersion():
		return none, apierrors.NewConflict(schema.GroupResource{}, object.GetName(), fmt.Errorf("version %s was not the newest", object.GetResourceVersion()))
	}
	fresh := object.DeepCopyObject().(T)
	e, err := c.store(to, stored, fresh)
	if err != nil {
		return none, err
	}
	c.pending = append(c.pending, e)
	return fresh, nil
}

// rights grants everything.
type rights struct {
	authorization.AuthorizationV1Interface
}

func (rights) SelfSubjectAccessReviews() authorization.SelfSubjectAccessReviewInterface {
	return reviews{}
}

type reviews struct {
	authorization.SelfSubjectAccessReviewInterface
}

func (reviews) Create(_ context.Context, review *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	answer := review.DeepCopy()
	answer.Status.Allowed = true
	return answer, nil
}
