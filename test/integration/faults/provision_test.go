// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/test/integration/fixture"
)

// provision creates a volume for each claim of the Env with a selected node,
// once, until stop is called.
func provision(e *fixture.Env) (stop func()) {
	e.T.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	queue := workqueue.NewTyped[*v1.PersistentVolumeClaim]()
	var running sync.WaitGroup
	running.Go(func() {
		follow(ctx, e.Client.CoreV1().RESTClient(), "persistentvolumeclaims", e.Namespace, &v1.PersistentVolumeClaim{}, following(
			func(claim *v1.PersistentVolumeClaim) {
				if beingMade(claim) && claim.Spec.VolumeName == "" {
					queue.Add(claim)
				}
			}, func(*v1.PersistentVolumeClaim) {}))
	})
	running.Go(func() {
		for {
			claim, down := queue.Get()
			if down {
				return
			}
			if err := makeVolume(ctx, e, claim); err != nil && ctx.Err() == nil {
				e.T.Error(err)
			}
			queue.Done(claim)
		}
	})
	return func() {
		cancel()
		queue.ShutDown()
		running.Wait()
	}
}

func makeVolume(ctx context.Context, e *fixture.Env, claim *v1.PersistentVolumeClaim) error {
	node := strings.TrimPrefix(claim.Annotations[plan.AnnSelectedNode], e.Namespace+"-")
	volume := e.LocalPV("made-"+strings.TrimPrefix(claim.Name, "claim-"), node).Class(*claim.Spec.StorageClassName).
		Capacity(claim.Spec.Resources.Requests.Storage().String()).ProvisionedBy(claim.Annotations[plan.AnnStorageProvisioner]).
		ClaimRef(claim.Namespace, claim.Name, string(claim.UID)).Obj()
	_, err := e.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
