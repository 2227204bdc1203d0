// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder_test

import (
	"context"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestOwnCluster has tests that concern a whole cluster, one after the other.
func TestOwnCluster(t *testing.T) {
	t.Parallel()
	e := fixture.NewOn(t, config())
	process, err := fixture.StartBinder(e.Context(), e.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
	})
	t.Run("default class", func(t *testing.T) { defaultClass(e.Sibling(t)) })
	t.Run("another PV controller", func(t *testing.T) { otherController(e.Sibling(t), process) })
}

// defaultClass: a claim without a class gets the default one that is created later.
func defaultClass(e *fixture.Env) {
	e.CreatePVC(e.PVC("c").Change(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }))
	e.WaitEvent(e.Namespace, "c", "FailedBinding", "no storage class is set")
	class := e.CreateClass(e.Class("default").Annotation("storageclass.kubernetes.io/is-default-class", "true").Immediate()).Name
	e.WaitPVC("c", "with the default class", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == class
	})
	e.CreatePVs(e.PV("v").Class(class))
	e.WaitBound("c", "v")
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
	e.WaitEvent(metav1.NamespaceDefault, e.Name("v"), "OtherPVController", "kube-controller-manager", "stopped binding claims")
	e.CreatePVC(e.PVC("c").Class("").VolumeName(e.Name("w")))
	e.CreatePVs(e.PV("w").Class(""))
	e.WaitBound("c", "w")
	for _, entry := range fixture.Get(e, func(ctx context.Context) (*corev1.PersistentVolume, error) {
		return e.Client.CoreV1().PersistentVolumes().Get(ctx, e.Name("w"), metav1.GetOptions{})
	}).ManagedFields {
		if entry.Manager == "stowage-pv-binder" {
			e.T.Errorf("the controller has written a volume after it stopped, at %s", entry.Time)
		}
	}
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
