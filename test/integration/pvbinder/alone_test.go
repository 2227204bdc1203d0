// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package pvbinder_test

import (
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

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

// otherController: the controller ends when it sees the writes of a PV controller.
func otherController(e *fixture.Env, process *cluster.Process) {
	process.Expect()
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
	if err := process.Err(); err != nil {
		e.T.Fatal(err)
	}
	if log := process.LogTail(); !strings.Contains(log, `"kube-controller-manager\" set the phase of volume`) || !strings.Contains(log, "-persistentvolume-binder-controller") {
		e.T.Errorf("the controller does not report the other one:%s", log)
	}
}

// startPVController starts the PV controller.
func startPVController(c *cluster.Cluster) error {
	_, err := c.StartCommand("pv-controller", fixture.DefaultConfig().Binaries.ControllerManager, []string{
		"--kubeconfig=" + c.Kubeconfig(), "--controllers=" + fixture.PVController, "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000", "--pvclaimbinder-sync-period=1s",
	}, nil)
	return err
}
