// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cleaningjobs_test tests cleaning by Jobs: the provisioner under its rights
// requests it, stowage-controller under its own creates Jobs, kube-controller-manager's Job
// controller creates their pods, and the test acts as kubelet and runs their commands.
// Tests kill each of them meanwhile, and forge requests.
package cleaningjobs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
	"stowage.dev/stowage/test/integration/rights"
	"stowage.dev/stowage/test/provisioners"
)

// provisionerBinary is the binary that Jobs run, controller that of the controller.
var provisionerBinary, controller string

// controllerConfig has no leader election: tests would wait for the lease of a killed
// controller.
const controllerConfig = `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
healthAddress: ""
cleaningJobs: {enabled: true}
leaderElection: {leaderElect: false}
`

// controllerAccount is who the controller is.
const controllerAccount = "system:serviceaccount:stowage-system:stowage-controller"

// audit ensures that the manifest grants nothing that no test has the controller use.
var audit = rights.Audit{
	User: controllerAccount, Files: []string{manifest("cleaning-jobs.yaml")},
	// Jobs that were not requested for two minutes; unit tests cover them.
	Rare: []string{`delete jobs (API group "batch") in namespace stowage-system`},
}

func TestMain(m *testing.M) {
	os.Exit(audit.Exit(fixture.MainOn(m, audit.Config, node.Install, install)))
}

// install makes the parts that the package's tests share.
func install(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	stop = func() {}
	if provisionerBinary, err = provisioners.Build(ctx, os.Stderr); err != nil {
		return stop, err
	}
	options := cluster.BuildOptions{Progress: os.Stderr}
	if controller, err = cluster.BuildCommand(ctx, options, "stowage.dev/stowage/cmd/controller"); err != nil {
		return stop, err
	}
	if err := c.CreateFiles(ctx, manifest("base/rbac.yaml"), manifest("cleaning-jobs.yaml")); err != nil {
		return stop, err
	}
	if err := createDaemonSet(ctx, c); err != nil {
		return stop, err
	}
	binaries, err := cluster.Build(ctx, options)
	if err != nil {
		return stop, err
	}
	// Beside the cluster's own, which has no Job controller.
	_, err = c.StartCommand("job-controller", binaries.ControllerManager, []string{
		"--kubeconfig=" + c.Kubeconfig(), "--controllers=job-controller,ttl-after-finished-controller", "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000",
	}, nil)
	if err != nil {
		return stop, err
	}
	if err := os.WriteFile(filepath.Join(c.Folder(), "controller.yaml"), []byte(controllerConfig), 0o600); err != nil {
		return stop, err
	}
	running, err = startController(c, controller)
	return stop, err
}

func manifest(name string) string { return filepath.Join("../../../manifests/controller", name) }

// createDaemonSet creates the objects of the provisioners that the controller reads: their
// DaemonSet, which runs no pods here, and their configuration, which each test adds to.
func createDaemonSet(ctx context.Context, c *cluster.Cluster) error {
	labels := map[string]string{"app.kubernetes.io/name": account}
	_, err := c.Client().AppsV1().DaemonSets(provisioners.Namespace).Create(ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "provisioner", Image: image}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the provisioners' DaemonSet: %w", err)
	}
	_, err = c.Client().CoreV1().ConfigMaps(provisioners.Namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Data:       map[string]string{"useJobForCleaning": "true"},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the provisioners' ConfigMap: %w", err)
	}
	return nil
}

const account, image = "stowage-provisioner", "registry.example/stowage-provisioner:test"

// running is the controller.
var running *cluster.Process

// startController starts a controller with the rights of the manifests.
func startController(c *cluster.Cluster, binary string) (*cluster.Process, error) {
	kubeconfig, err := c.KubeconfigFor(controllerAccount,
		"system:serviceaccounts", "system:serviceaccounts:stowage-system", "system:authenticated")
	if err != nil {
		return nil, err
	}
	return c.StartCommand("controller", binary, []string{
		"--kubeconfig=" + kubeconfig, "--config=" + filepath.Join(c.Folder(), "controller.yaml"), "--v=4",
	}, nil)
}
