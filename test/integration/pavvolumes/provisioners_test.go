// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pavvolumes_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/pav/volumes/rules"
	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// The controller accepts the examples as they are.
func TestExamples(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	files, err := filepath.Glob(manifests + "pav/examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	e.Do(func(ctx context.Context) error { return e.Cluster.CreateFiles(ctx, files...) })
	t.Cleanup(func() {
		var errs []error
		for _, file := range files {
			errs = append(errs, clients.Provisioners.Delete(context.WithoutCancel(e.Context()), strings.TrimSuffix(filepath.Base(file), ".yaml"), metav1.DeleteOptions{}))
		}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	for _, file := range files {
		seen(e, clients.Provisioners, strings.TrimSuffix(filepath.Base(file), ".yaml"), func(p *stowage.PavProvisioner) bool {
			return meta.IsStatusConditionTrue(p.Status.Conditions, stowage.ConditionAccepted)
		})
	}
}

// rejected waits until the Env's provisioner is not accepted.
func rejected(e *fixture.Env, reason, message string) {
	e.T.Helper()
	e.WaitEvent("default", e.Namespace, reason, message)
	seen(e, clients.Provisioners, e.Namespace, func(p *stowage.PavProvisioner) bool {
		condition := meta.FindStatusCondition(p.Status.Conditions, stowage.ConditionAccepted)
		return condition != nil && condition.Status == metav1.ConditionFalse && condition.Reason == reason &&
			strings.Contains(condition.Message, message) && condition.ObservedGeneration == p.Generation
	})
}

// A provisioner whose templates or CSIDriver are not right is not accepted, and provisions nothing
// until they are.
func TestNotAccepted(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	drivers := e.Client.StorageV1().CSIDrivers()
	fixture.Get(e, func(ctx context.Context) (*storagev1.CSIDriver, error) {
		return drivers.Create(ctx, builders.MakeCSIDriver(e.Namespace).Obj(), metav1.CreateOptions{})
	})
	create(e, helloWorld(t))
	rejected(e, "CSIDriverNotOwned", "is not owned by this PavProvisioner")
	e.Do(func(ctx context.Context) error { return drivers.Delete(ctx, e.Namespace, metav1.DeleteOptions{}) })
	accepted(e, 1)
	patchSpec(e, `{"volumeCreation":{"capacity":"1Gi","handle":"x\n{{ }}"}}`)
	const problem = "spec.volumeCreation.handle: line 2, column 4: expected an expression"
	rejected(e, "InvalidSpec", problem)
	e.CreateClass(e.Class("made").Provisioner(e.Namespace).Immediate().ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	claim := e.CreatePVC(e.PVC("c").Class(e.Name("made")))
	e.WaitEvent(e.Namespace, "c", string(rules.NotAccepted), problem)
	patchSpec(e, `{"volumeCreation":{"handle":"{{ x"}}`)
	e.WaitEvent(e.Namespace, "c", string(rules.NotAccepted), "spec.volumeCreation.handle: line 1, column 1: {{ is not closed")
	patchSpec(e, `{"volumeCreation":{"handle":null}}`)
	accepted(e, 4)
	boundTo(e, claim)
	removed(e, claim)
}

// A ControllerRevision of the name of a spec's revision that is not the provisioner's is reported
// until it is gone.
func TestForeignRevision(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	create(e, helloWorld(t))
	const other = `{"volumeCreation":{"capacity":"2Gi"}}`
	accepted(e, 1)
	patchSpec(e, other)
	name := accepted(e, 2)
	patchSpec(e, `{"volumeCreation":{"capacity":"1Gi"}}`)
	accepted(e, 3)
	revisions := e.Client.AppsV1().ControllerRevisions(namespace)
	e.Do(func(ctx context.Context) error { return revisions.Delete(ctx, name, metav1.DeleteOptions{}) })
	fixture.Get(e, func(ctx context.Context) (*appsv1.ControllerRevision, error) {
		return revisions.Create(ctx, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: runtime.RawExtension{Raw: []byte(`{}`)},
		}, metav1.CreateOptions{})
	})
	patchSpec(e, other)
	rejected(e, "RevisionNotOwned", "ControllerRevision "+namespace+"/"+name+" exists, and has other content or no label")
	e.Do(func(ctx context.Context) error { return revisions.Delete(ctx, name, metav1.DeleteOptions{}) })
	if again := accepted(e, 4); again != name {
		t.Errorf("revision %s, want %s", again, name)
	}
}
