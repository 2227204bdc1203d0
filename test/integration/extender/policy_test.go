// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// applyPolicy applies the shipped policy for the schedulers of these tests that call an
// extender: all whose name begins with extender-.
func applyPolicy(ctx context.Context, c *cluster.Cluster) (err error) {
	data, err := os.ReadFile(filepath.Join(manifests, "base", "policy.yaml"))
	if err != nil {
		return err
	}
	const shipped = "orValue('default-scheduler') in ['default-scheduler']"
	if !strings.Contains(string(data), shipped) {
		return errors.New("policy.yaml has no " + shipped)
	}
	file, err := os.CreateTemp("", "policy-*.yaml")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	const version = "apiVersion: admissionregistration.k8s.io/v1\n"
	_, err = file.WriteString(strings.NewReplacer(
		shipped, "orValue('').startsWith('extender-')", version, "apiVersion: "+fixture.PolicyVersion()+"\n",
	).Replace(string(data)))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return c.CreateFiles(ctx, file.Name())
}

// Stock kube-schedulers beside the one that calls the extender.
const (
	stockConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: NAME
`
	// ignoring is what docs/extender.md has in a kube-scheduler before the policy and after it.
	ignoring = `  pluginConfig:
  - name: NodeResourcesFit
    args:
      ignoredResources: [stowage.dev/volumes]
`
)

// TestBesideOtherSchedulers: the policy marks only the pods of schedulers that call
// the extender, so that others place theirs. Pods that are marked already are placed by
// stowage-scheduler, as a second one and as the only one, and by a kube-scheduler that
// ignores the mark.
func TestBesideOtherSchedulers(t *testing.T) {
	t.Parallel()
	e := full(fixture.New(t))
	e.AddNodes(e.Node("a"))
	second, err := os.ReadFile("../../../manifests/scheduler/second/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	only, err := os.ReadFile("../../../manifests/scheduler/only/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := cluster.BuildCommand(e.Context(), cluster.BuildOptions{Progress: t.Output()}, "stowage.dev/stowage/cmd/scheduler")
	if err != nil {
		t.Fatal(err)
	}
	for name, scheduler := range map[string]struct {
		binary, config string
		refuses        bool // pods that are marked
	}{
		"second":   {binary: ours, config: named(t, string(second), "schedulerName: stowage-scheduler", e.Name("second"))},
		"only":     {binary: ours, config: named(t, string(only), "schedulerName: default-scheduler", e.Name("only"))},
		"stock":    {config: named(t, stockConfig, "schedulerName: NAME", e.Name("stock")), refuses: true},
		"ignoring": {config: named(t, stockConfig+ignoring, "schedulerName: NAME", e.Name("ignoring"))},
	} {
		t.Run(name, func(t *testing.T) {
			config := strings.ReplaceAll(scheduler.config, "  kubeconfig: /etc/kubernetes/scheduler.conf", "  #")
			p, err := e.Cluster.StartHealthyScheduler(e.Context(), cluster.SchedulerOptions{Name: e.Name(name), Binary: scheduler.binary, ConfigYAML: []byte(config)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Kill() }() // it also ends with the cluster
			claimed := func(suffix string) *builders.Pod {
				claim := name + suffix
				e.CreatePVs(e.LocalPV(claim, "a"))
				e.CreatePVC(e.PVC(claim))
				return e.Pod(claim).SchedulerName(e.Name(name)).PVC(claim)
			}
			plain := e.CreatePod(claimed("-plain"))
			if marked(plain) {
				t.Error("a pod of a scheduler without extender is marked")
			}
			e.WaitScheduled(plain, "a")
			before := e.CreatePod(claimed("-marked").Change(func(p *corev1.Pod) {
				one := corev1.ResourceList{"stowage.dev/volumes": resource.MustParse("1")}
				p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
			}))
			if scheduler.refuses {
				e.WaitUnschedulable(before, "Insufficient stowage.dev/volumes")
				return
			}
			e.WaitScheduled(before, "a")
		})
	}
	e.CreatePVs(e.LocalPV("asked", "a"))
	e.CreatePVC(e.PVC("asked"))
	if pod := e.CreatePod(e.Pod("asked").PVC("asked")); !marked(pod) {
		t.Error("a pod of the scheduler with the extender is not marked")
	} else {
		e.WaitScheduled(pod, "a")
	}
	e.NoVolumeTwice()
}

// named is a configuration whose profile has another name.
func named(t *testing.T, config, profile, name string) string {
	t.Helper()
	if !strings.Contains(config, profile) {
		t.Fatalf("the configuration has no %q", profile)
	}
	return strings.ReplaceAll(config, profile, "schedulerName: "+name)
}
