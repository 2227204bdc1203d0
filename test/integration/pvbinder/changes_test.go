// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/scheduling/plan"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestLongNames: the event of a claim whose pods have the longest names is written.
func TestLongNames(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.CreatePVC(e.PVC("c"))
	for _, letter := range []string{"a", "b", "c", "d", "e"} {
		e.CreatePod(e.Pod(strings.Repeat(letter, 253)).PVC("c").SchedulerName("none"))
	}
	e.WaitEvent(e.Namespace, "c", "WaitForPodScheduled", strings.Repeat("a", 253), strings.Repeat("c", 253), "…")
}

// TestClassRecreated: a claim that waits follows its class, which is deleted and created with another binding mode.
func TestClassRecreated(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	class := e.Class("changing").Provisioner("csi.example.com")
	e.CreatePVC(e.PVC("c").Class(e.Name("changing")))
	e.WaitEvent(e.Namespace, "c", "ProvisioningFailed", "not found")
	e.CreateClass(class)
	e.WaitEvent(e.Namespace, "c", "WaitForFirstConsumer")
	deleteClass(e, e.Name("changing"))
	e.CreateClass(class.Immediate())
	e.WaitEvent(e.Namespace, "c", "ExternalProvisioning", "csi.example.com")
	e.WaitPVC("c", "with its provisioner", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Annotations[plan.AnnStorageProvisioner] == "csi.example.com"
	})
}

func deleteClass(e *fixture.Env, name string) {
	e.T.Helper()
	e.Do(func(ctx context.Context) error {
		return e.Client.StorageV1().StorageClasses().Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// TestVolumeMoved: a free volume that is moved to another class serves a claim of that class.
func TestVolumeMoved(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	volume, claim := immediate(e, noProvisioner)
	e.CreatePVs(volume("v").Class(e.Name("other")))
	e.CreatePVC(claim("c"))
	e.WaitEvent(e.Namespace, "c", "ProvisioningFailed")
	e.PatchPV("v", map[string]any{"spec": map[string]any{"storageClassName": e.Name("now")}})
	e.WaitBound("c", "v")
}

// TestModified: what a resizer writes while it modifies a bound claim's volume is left alone.
func TestModified(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	volume, claim := immediate(e, noProvisioner)
	e.CreatePVs(volume("v").CSI("csi.example.com", "v").AttributesClass("gold"))
	e.CreatePVC(claim("c").AttributesClass("gold"))
	e.WaitBound("c", "v")
	e.PatchPVC("c", map[string]any{"spec": map[string]any{"volumeAttributesClassName": "silver"}})
	leftAlone(e, map[string]any{
		"modifyVolumeStatus": map[string]any{"targetVolumeAttributesClassName": "silver", "status": "InProgress"},
		"conditions":         []any{map[string]any{"type": "ModifyingVolume", "status": "True"}},
	})
	e.PatchPV("v", map[string]any{"spec": map[string]any{"volumeAttributesClassName": "silver", "capacity": map[string]any{"storage": "2Gi"}}})
	leftAlone(e, map[string]any{"conditions": nil})
	leftAlone(e, map[string]any{
		"modifyVolumeStatus": nil, "currentVolumeAttributesClassName": "silver", "capacity": map[string]any{"storage": "2Gi"},
	})
}

// leftAlone changes the status of claim c, and checks that the controller writes neither that nor volume v.
func leftAlone(e *fixture.Env, status map[string]any) {
	e.T.Helper()
	claims := e.Client.CoreV1().PersistentVolumeClaims(e.Namespace)
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		e.T.Fatal(err)
	}
	want := fixture.Get(e, func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return claims.Patch(ctx, "c", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	})
	volume := volumeNamed(e, e.Name("v"))
	settle(e.Sibling(e.T))
	got := fixture.Get(e, func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return claims.Get(ctx, "c", metav1.GetOptions{})
	})
	for _, claim := range []*corev1.PersistentVolumeClaim{want, got} {
		claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == "Unused" // kube-controller-manager's; older minors have no constant
		})
	}
	if diff := cmp.Diff(want.Status, got.Status, cmpopts.EquateEmpty()); diff != "" {
		e.T.Errorf("status of the claim (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(volume, volumeNamed(e, volume.Name)); diff != "" {
		e.T.Errorf("volume (-want +got):\n%s", diff)
	}
}

// isDefault is the annotation of a default class.
const isDefault = "storageclass.kubernetes.io/is-default-class"

// twoDefaults creates a claim without a class, and two default classes. newest checks that the claim got the newest class, and
// deletes both.
func twoDefaults(e *fixture.Env) (newest func()) {
	e.CreatePVC(e.PVC("without-class").Change(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }))
	var classes []*storagev1.StorageClass
	for _, name := range []string{"a-older", "b-newer"} {
		if len(classes) > 0 {
			<-time.After(time.Second) // not a deadline: a pause, since times of creation are whole seconds
		}
		classes = append(classes, e.CreateClass(e.Class(name).Annotation(isDefault, "true")))
	}
	return func() {
		e.T.Helper()
		claim := e.WaitPVC("without-class", "with a class", func(c *corev1.PersistentVolumeClaim) bool { return c.Spec.StorageClassName != nil })
		if got := *claim.Spec.StorageClassName; got != classes[1].Name {
			e.T.Errorf("the claim got class %s, want %s", got, classes[1].Name)
		}
		for _, class := range classes {
			deleteClass(e, class.Name)
		}
	}
}
