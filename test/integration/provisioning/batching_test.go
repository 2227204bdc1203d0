// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package provisioning_test

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestSameNameInTwoNamespaces: pods that differ in nothing but their namespace
// have claims of one name, bound to volumes on different nodes. The scheduler
// reuses what it found for a pod for the next one that looks the same.
func TestSameNameInTwoNamespaces(t *testing.T) {
	t.Parallel()
	e, other := fixture.New(t), fixture.New(t)
	e.AddNodes(e.Node("a"), e.Node("b"), e.Node("c"), e.Node("d"))
	node := map[string]string{e.Namespace: "a", other.Namespace: "b"}
	for namespace, name := range node {
		e.CreatePVs(e.LocalPV("on-"+name, name).ClaimRef(namespace, "data", ""))
	}
	for _, env := range []*fixture.Env{e, other} {
		env.CreatePVC(env.PVC("data").Class(e.Name("local")))
		// The first pod has the claim bound.
		first := env.CreatePodObject(alike(e, env.Namespace, "first"))
		env.WaitScheduled(first)
		env.WaitBound("data", "")
	}
	// Created at once, so that they are scheduled one after the other.
	const rounds = 8
	var pods []*v1.Pod
	ctx, cancel := context.WithTimeout(t.Context(), e.Timeout)
	defer cancel()
	for i := range rounds {
		for _, env := range []*fixture.Env{e, other} {
			pod := alike(e, env.Namespace, fmt.Sprintf("pod-%d", i))
			made, err := e.Client.CoreV1().Pods(env.Namespace).Create(ctx, pod, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			pods = append(pods, made)
		}
	}
	for _, pod := range pods {
		env := e
		if pod.Namespace != e.Namespace {
			env = other
		}
		if got, want := env.WaitScheduled(pod).Spec.NodeName, e.Name(node[pod.Namespace]); got != want {
			t.Errorf("pod %s/%s is on node %s, its volume on %s", pod.Namespace, pod.Name, got, want)
		}
	}
}

// alike is a pod for the nodes of e in any namespace.
func alike(e *fixture.Env, namespace, name string) *v1.Pod {
	b := builders.MakePod(name).Namespace(namespace).SchedulerName(e.Pod("").Obj().Spec.SchedulerName).PVC("data")
	for key, value := range e.NodeSelector() {
		b.NodeSelector(key, value)
	}
	return b.Obj()
}
