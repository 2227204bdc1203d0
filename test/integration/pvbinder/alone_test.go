// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestOwnCluster has tests that concern a whole cluster, one after the other.
func TestOwnCluster(t *testing.T) {
	t.Parallel()
	e := fixture.NewOn(t, config())
	left, newest := bindBefore(e), twoDefaults(e)
	process, err := fixture.StartBinder(e.Context(), e.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
	})
	newest()
	t.Run("default class", func(t *testing.T) { defaultClass(e.Sibling(t)) })
	left()
	t.Run("another PV controller", func(t *testing.T) { otherController(e.Sibling(t), process) })
}

// bindBefore creates claims that are bound before the controller starts. left checks that it has written
// neither them nor their volumes.
func bindBefore(e *fixture.Env) (left func()) {
	const n = 20
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		claim := e.CreatePVC(e.PVC(name).VolumeName(e.Name(name)).BindCompleted().BoundByController())
		volume := e.CreatePVsUnseen(e.PV(name).ClaimRef(e.Namespace, name, string(claim.UID)).BoundByController())[0]
		claim.Status.Phase, volume.Status.Phase = corev1.ClaimBound, corev1.VolumeBound
		claim.Status.AccessModes, claim.Status.Capacity = volume.Spec.AccessModes, volume.Spec.Capacity
		e.Do(func(ctx context.Context) error {
			_, claimErr := e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
			_, volumeErr := e.Client.CoreV1().PersistentVolumes().UpdateStatus(ctx, volume, metav1.UpdateOptions{})
			return errors.Join(claimErr, volumeErr)
		})
	}
	return func() {
		e.T.Helper()
		settle(e)
		for i := range n {
			claim := fixture.Get(e, func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
				return e.Client.CoreV1().PersistentVolumeClaims(e.Namespace).Get(ctx, fmt.Sprintf("c%d", i), metav1.GetOptions{})
			})
			notWritten(e, claim)
			notWritten(e, volumeNamed(e, claim.Spec.VolumeName))
		}
	}
}

func volumeNamed(e *fixture.Env, name string) *corev1.PersistentVolume {
	return fixture.Get(e, func(ctx context.Context) (*corev1.PersistentVolume, error) {
		return e.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	})
}

// notWritten checks that the controller has never written the object. Others may have.
func notWritten(e *fixture.Env, object metav1.Object) {
	e.T.Helper()
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == "stowage-pv-binder" {
			e.T.Errorf("the controller has written %s at %s", object.GetName(), entry.Time)
		}
	}
}

// defaultClass: a claim without a class gets the default one that is created later, or becomes the default; one with
// the empty class does not.
func defaultClass(e *fixture.Env) {
	e.CreatePVC(e.PVC("c").Change(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }))
	e.CreatePVC(e.PVC("empty").Class(""))
	e.WaitEvent(e.Namespace, "c", "FailedBinding", "no storage class is set")
	e.WaitEvent(e.Namespace, "empty", "FailedBinding", "no storage class is set")
	class := e.CreateClass(e.Class("default").Annotation(isDefault, "true").Immediate()).Name
	hasDefault := func(c *corev1.PersistentVolumeClaim) bool {
		return c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == class
	}
	e.WaitPVC("c", "with the default class", hasDefault)
	e.CreatePVs(e.PV("v").Class(class))
	e.WaitBound("c", "v")
	setDefault(e, class, "false")
	e.CreatePVC(e.PVC("d").Change(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }))
	e.WaitEvent(e.Namespace, "d", "FailedBinding", "no storage class is set")
	setDefault(e, class, "true")
	e.WaitPVC("d", "with the default class", hasDefault)
	if empty := e.SeenPVC("empty"); *empty.Spec.StorageClassName != "" {
		e.T.Errorf("the claim with the empty class got class %q", *empty.Spec.StorageClassName)
	}
	e.CreatePVs(e.PV("without-class").Class(""))
	e.WaitBound("empty", "without-class")
}

func setDefault(e *fixture.Env, class, value string) {
	e.T.Helper()
	e.Do(func(ctx context.Context) error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, isDefault, value)
		_, err := e.Client.StorageV1().StorageClasses().Patch(ctx, class, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// otherController: the controller stops binding claims when it observes the writes of a PV controller, and
// its process continues.
func otherController(e *fixture.Env, process *cluster.Process) {
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		e.T.Fatal(err)
	}
	if err := startPVController(e.Cluster); err != nil {
		e.T.Fatal(err)
	}
	e.CreatePVs(e.PV("v"))
	if err := process.Signal(syscall.SIGCONT); err != nil {
		e.T.Fatal(err)
	}
	e.WaitEvent(metav1.NamespaceDefault, "", "OtherPVController", "kube-controller-manager", "stopped binding claims")
	e.CreatePVC(e.PVC("c").Class("").VolumeName(e.Name("w")))
	e.CreatePVs(e.PV("w").Class(""))
	e.WaitBound("c", "w")
	notWritten(e, volumeNamed(e, e.Name("w")))
	if !process.Running() {
		e.T.Error("the process has ended", process.Err())
	}
	if log := process.LogTail(); !strings.Contains(log, "-persistentvolume-binder-controller") {
		e.T.Errorf("the log does not have what to do:%s", log)
	}
}

// startPVController starts the PV controller.
func startPVController(c *cluster.Cluster) error {
	_, err := c.StartCommand("pv-controller", fixture.DefaultConfig().Binaries.ControllerManager, []string{
		"--kubeconfig=" + c.Kubeconfig(), "--controllers=" + cluster.PVController, "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000", "--pvclaimbinder-sync-period=1s",
	}, nil)
	return err
}
