// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/test/cluster"
)

const (
	namespace = "stowage-system"
	account   = "stowage-provisioner"
	params    = "stowage-provisioner-nodes"
)

// manifests are what an administrator applies, but for the agents themselves.
var manifests = []string{
	"crd/stowage.dev_localdiskreports.yaml",
	"provisioner/namespace.yaml", "provisioner/rbac.yaml", "provisioner/startup-taint/rbac.yaml", "provisioner/nodes.yaml",
	"provisioner/policy-volumes.yaml", "provisioner/policy-placement.yaml", "provisioner/policy-reports.yaml", "provisioner/policy-nodes.yaml",
}

// binary is the agent, set by Install before any test runs.
var binary string

// Install builds the agent and applies its manifests, for fixture.Main.
func Install(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	binary, err = cluster.BuildCommand(ctx, cluster.BuildOptions{Progress: os.Stderr}, "stowage.dev/stowage/cmd/provisioner")
	if err != nil {
		return nil, err
	}
	return func() {}, Apply(ctx, c)
}

// Apply applies the agent's manifests.
func Apply(ctx context.Context, c *cluster.Cluster) error {
	folder, err := manifestFolder()
	if err != nil {
		return err
	}
	for _, file := range manifests {
		if err := c.CreateFiles(ctx, filepath.Join(folder, file)); err != nil {
			return err
		}
	}
	return nil
}

// manifestFolder is found from where this file was compiled: tests run in the folder
// of their package.
func manifestFolder() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(file), "../../../manifests")
	if _, err := os.Stat(folder); !ok || err != nil {
		return "", fmt.Errorf("find the manifests: %w", err)
	}
	return folder, nil
}

// AllowClass lets agents create volumes of a class. The ConfigMap is every test's, so
// it is added to and never taken from.
func (n *Node) AllowClass(class string) {
	n.t.Helper()
	client := n.Env.Client.CoreV1().ConfigMaps(namespace)
	for {
		configMap, err := client.Get(n.Env.Context(), params, metav1.GetOptions{})
		if err != nil {
			n.t.Fatal(err)
		}
		patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"data":{"classes":%q}}`, configMap.ResourceVersion, configMap.Data["classes"]+","+class)
		_, err = client.Patch(n.Env.Context(), params, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err == nil {
			return
		}
		if !isConflict(err) {
			n.t.Fatal(err)
		}
	}
}

// agentPod is a pod that the agent's token is bound to.
func (n *Node) agentPod() *corev1.Pod {
	n.t.Helper()
	pod, err := n.Env.Client.CoreV1().Pods(namespace).Create(n.Env.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: account + "-"},
		Spec: corev1.PodSpec{
			NodeName:           n.Name,
			ServiceAccountName: account,
			Containers:         []corev1.Container{{Name: "provisioner", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	return pod
}
