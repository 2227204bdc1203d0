// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs_test

import (
	"context"
	"maps"
	"os"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/node"
	"stowage.dev/stowage/test/provisioners"
)

// newNode is a node whose disks Jobs clean.
func newNode(t *testing.T) *node.Node {
	t.Helper()
	t.Parallel()
	return newNodeAlone(t)
}

// newNodeAlone is newNode for a test that does not run in parallel.
func newNodeAlone(t *testing.T) *node.Node {
	t.Helper()
	n := node.New(t, fixture.New(t), "a")
	n.WriteConfig("useJobForCleaning", "true")
	share(t, n)
	return n
}

// share adds the node's classes to the configuration that the controller reads: each
// test has its own classes, and all share one ConfigMap.
func share(t *testing.T, n *node.Node) {
	t.Helper()
	text, err := os.ReadFile(n.Path("config", "storageClassMap"))
	if err != nil {
		t.Fatal(err)
	}
	var mine map[string]any
	if err := yaml.Unmarshal(text, &mine); err != nil {
		t.Fatal(err)
	}
	client := n.Env.Client.CoreV1().ConfigMaps(provisioners.Namespace)
	for {
		configMap, err := client.Get(n.Env.Context(), account, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]any{}
		if err := yaml.Unmarshal([]byte(configMap.Data["storageClassMap"]), &all); err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, mine)
		text, err := yaml.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		configMap.Data["storageClassMap"] = string(text)
		if _, err = client.Update(n.Env.Context(), configMap, metav1.UpdateOptions{}); err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

// waitAnswer waits for an answer of the controller.
func waitAnswer(t *testing.T, n *node.Node, what string, is func(stowage.CleaningJob) bool) stowage.CleaningJob {
	t.Helper()
	var found stowage.CleaningJob
	n.WaitReport(what, func(r *stowage.LocalDiskReport) bool {
		for _, job := range r.Status.Jobs {
			if is(job) {
				found = job
				return true
			}
		}
		return false
	})
	return found
}

// made are the names of a node's Jobs.
func made(t *testing.T, n *node.Node) []string {
	t.Helper()
	list, err := n.Env.Client.BatchV1().Jobs(provisioners.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: ofNode(n)})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, job := range list.Items {
		names = append(names, job.Name)
	}
	return names
}
