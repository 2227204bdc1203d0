// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics/testutil"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	compat "stowage.dev/kubecompat/scheduler"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestSameNameInTwoNamespaces: pods that differ only in their namespace
// have claims of one name, bound to volumes on different nodes. The scheduler
// reuses the result for a pod for the next one with the same signature: for
// pods of one namespace it does, and across namespaces never.
func TestSameNameInTwoNamespaces(t *testing.T) {
	t.Parallel()
	const count = 8 // pods of each namespace
	tests := map[string]struct {
		nodes  int // of each namespace
		cpu    string
		reused bool
	}{
		"a pod fills a node": {nodes: 1 + count, cpu: "32", reused: true},
		"more pods fit":      {nodes: 2, cpu: "1m", reused: compat.RescoresNode},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, other := fixture.New(t), fixture.New(t)
			nodes := map[string][]string{}
			for _, env := range []*fixture.Env{e, other} {
				for i := range test.nodes {
					node := e.Node(fmt.Sprintf("%s-%d", env.Namespace, i))
					e.AddNodes(node)
					nodes[env.Namespace] = append(nodes[env.Namespace], node.Obj().Name)
				}
				e.CreatePVs(e.PV("of-"+env.Namespace).Hostname(nodes[env.Namespace]...).ClaimRef(env.Namespace, "data", ""))
				env.CreatePVC(env.PVC("data").Class(e.Name("local")))
				// The first pod has the claim bound.
				first := env.CreatePodObject(alike(e, env.Namespace, "first", test.cpu))
				env.WaitScheduled(first)
				env.WaitBound("data", "")
			}
			// All are queued before the first is popped, so that they are
			// placed one right after the other.
			open := make(chan struct{})
			release := sync.OnceFunc(func() { close(open) })
			s := e.Start(fixture.SchedulerOptions{
				Profiles: []fixture.Profile{{Change: signAll}},
				Prepare: func(s *fixture.Scheduler) {
					compat.BeforeNext(s.Scheduler, func() { <-open })
				},
			})
			t.Cleanup(release) // it could not stop otherwise
			e.Use(s.Name())
			var pods []*v1.Pod
			for i := range 2 * count {
				env := []*fixture.Env{e, other}[i/2%2] // two of each in turn
				pods = append(pods, env.CreatePodObject(alike(e, env.Namespace, fmt.Sprintf("pod-%d", i), test.cpu)))
			}
			release()
			for _, pod := range pods {
				env := e
				if pod.Namespace != e.Namespace {
					env = other
				}
				if got, want := env.WaitScheduled(pod).Spec.NodeName, nodes[pod.Namespace]; !slices.Contains(want, got) {
					t.Errorf("pod %s/%s is on node %s, its volume on %v", pod.Namespace, pod.Name, got, want)
				}
			}
			if n := batched(t, s.Name(), metrics.BatchAttemptHintUsed); n > 0 != test.reused {
				t.Errorf("%v results were reused within a namespace, want any: %t", n, test.reused)
			}
			if n := batched(t, s.Name(), metrics.BatchAttemptHintNotUsed); n != 0 {
				t.Errorf("%v times the scheduler tried a node that it had found for a pod with another claim", n)
			}
		})
	}
}

// signAll leaves out the default topology spread constraints: with them the
// scheduler signs no pod.
func signAll(p *schedulerv1.KubeSchedulerProfile) {
	p.PluginConfig = append(p.PluginConfig, schedulerv1.PluginConfig{Name: names.PodTopologySpread, Args: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"PodTopologySpreadArgs","defaultingType":"List"}`),
	}})
}

// batched is how often a pod's result was reused with this outcome.
func batched(t *testing.T, profile, result string) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.BatchAttemptStats.WithLabelValues(profile, result))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// alike is a pod for the nodes of e in any namespace. MakeNode has 32 CPUs.
func alike(e *fixture.Env, namespace, name, cpu string) *v1.Pod {
	b := builders.MakePod(name).Namespace(namespace).SchedulerName(e.Pod("").Obj().Spec.SchedulerName).PVC("data").Requests(cpu, "")
	for key, value := range e.NodeSelector() {
		b.NodeSelector(key, value)
	}
	return b.Obj()
}
