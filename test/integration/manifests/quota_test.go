// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
)

// guarded has the API server admit critical priority only where a ResourceQuota covers it, as
// large providers do.
const guarded = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: pods
      matchScopes:
      - scopeName: PriorityClass
        operator: In
        values: [system-node-critical, system-cluster-critical]
`

// TestPriorityQuota: where critical priority needs a quota, pods of provisioners and controller are
// refused without the one of platforms/priority-quota, and admitted with it.
func TestPriorityQuota(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(guarded), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := deadline.Context(t.Context())
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{
		Binaries: fixture.DefaultConfig().Binaries, NoKwok: true,
		APIServer:         cluster.APIServerConfig{ExtraArgs: []string{"--admission-control-config-file=" + file}},
		ControllerManager: cluster.ControllerManagerConfig{Controllers: []string{"serviceaccount-controller", "resourcequota-controller"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	pods := podsOf(t, "overlays/default")
	for _, o := range kustomize(t, "overlays/default") {
		if kind := o.GetKind(); kind == "Namespace" || kind == "ServiceAccount" {
			if err := cluster.Apply(t.Context(), client, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	create := func(name string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: pods[name]}
		_, err := c.Client().CoreV1().Pods(namespace).Create(t.Context(), pod, dryRun)
		return err
	}
	workloads := []string{"stowage-provisioner", "stowage-controller"}
	for _, name := range workloads {
		if err := create(name); err == nil || !strings.Contains(err.Error(), "insufficient quota") {
			t.Errorf("%s without a quota: %v", name, err)
		}
	}
	for _, o := range kustomize(t, "platforms/priority-quota") {
		if err := cluster.Apply(t.Context(), client, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range workloads {
		waitFor(t, name+" is admitted with the quota", func() bool { return create(name) == nil })
	}
}
