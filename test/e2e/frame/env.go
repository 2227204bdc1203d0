// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/deadline"
)

// timeout is how long a test may take before its waits fail. It is ample for a machine that has
// other things to do too.
var timeout = 15 * deadline.Wait()

// cleanTimeout is how long removing a test's nodes and objects may take.
var cleanTimeout = 2 * deadline.Wait()

// Env is a test's part of a cluster.
type Env struct {
	T       testing.TB
	Cluster *realnode.Cluster
	Client  kubernetes.Interface
	// Namespace is the test's own, and the beginning of the names of its other objects.
	Namespace string
	// Context ends with the test's deadline.
	Context context.Context

	dumped sync.Once
}

// New returns an Env on the cluster that all tests of the package share.
func New(t testing.TB) *Env {
	t.Helper()
	return shared.New(t)
}

// NewOn starts a cluster with options for this test alone.
func NewOn(t testing.TB, o Options) *Env {
	t.Helper()
	c, err := start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(c, t.Failed()); err != nil {
			t.Error(err)
		}
	})
	return newEnv(t, c)
}

func newEnv(t testing.TB, c *realnode.Cluster) *Env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	e := &Env{T: t, Cluster: c, Client: c.Client(), Context: ctx}
	var err error
	e.Namespace, err = c.NewNamespace(ctx, "e2e")
	e.Do(err)
	e.after(func(ctx context.Context) error { // this does not wait for the deletion
		return e.Client.CoreV1().Namespaces().Delete(ctx, e.Namespace, metav1.DeleteOptions{})
	})
	return e
}

// after calls remove after the test, and logs Dump before that once if the test has failed.
func (e *Env) after(remove func(context.Context) error) {
	e.T.Cleanup(func() {
		if e.T.Failed() {
			e.dumped.Do(func() { e.T.Log(e.Dump()) })
		}
		ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
		defer cancel()
		if err := remove(ctx); err != nil {
			e.T.Error(err)
		}
	})
}

// Name makes a name that no other test has, for objects that are in no namespace.
func (e *Env) Name(short string) string { return e.Namespace + "-" + short }

// Node is a node with disks, for AddNodes.
func Node(name string, disks ...realnode.Disk) realnode.NodeSpec {
	return realnode.NodeSpec{Name: name, Disks: disks}
}

// AddNodes starts nodes side by side, by their short names, and returns them in order when they
// are Ready. They are removed after the test.
func (e *Env) AddNodes(specs ...realnode.NodeSpec) []*realnode.Node {
	e.T.Helper()
	specs = slices.Clone(specs)
	for i := range specs {
		specs[i].Name = e.Name(specs[i].Name)
	}
	nodes, err := e.Cluster.AddNodes(e.Context, specs...)
	e.after(func(ctx context.Context) error {
		var errs []error
		for _, n := range nodes {
			if n != nil {
				errs = append(errs, e.Cluster.RemoveNode(ctx, n))
			}
		}
		return errors.Join(errs...)
	})
	e.Do(err)
	return nodes
}

// Do fails the test if err is not nil.
func (e *Env) Do(err error) {
	e.T.Helper()
	if err != nil {
		e.T.Fatal(err)
	}
}

// OnNode selects a node of the test, by its short name, for a pod. The scheduler still places the
// pod.
func (e *Env) OnNode(pod *corev1.Pod, short string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: e.Name(short)}
	return pod
}

// Kubectl runs kubectl in the test's namespace and returns its output.
func (e *Env) Kubectl(args ...string) string {
	e.T.Helper()
	out, err := e.Cluster.Kubectl(e.Context, append([]string{"--namespace=" + e.Namespace}, args...)...)
	e.Do(err)
	return out
}

// Exec runs a command in the first container of a pod, as kubectl exec does, and returns its
// output.
func (e *Env) Exec(pod string, command ...string) string {
	e.T.Helper()
	return e.Kubectl(append([]string{"exec", pod, "--"}, command...)...)
}

// Dump describes the state of the cluster, for failed tests.
func (e *Env) Dump() string {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	var b strings.Builder
	for _, args := range [][]string{
		{"get", "nodes", "--output=wide"},
		{"get", "pods", "--all-namespaces", "--output=wide"},
		{"get", "persistentvolumes,persistentvolumeclaims"},
		{"get", "localdiskreports", `--output=jsonpath={range .items[*]}{range .status.entries[*]}{.path} {.state} {.reason} {.message}{"\n"}{end}{end}`},
		{"get", "events", "--sort-by=.lastTimestamp"},
	} {
		out, err := e.Cluster.Kubectl(ctx, append([]string{"--namespace=" + e.Namespace}, args...)...)
		fmt.Fprintf(&b, "kubectl %s\n%s\n", strings.Join(args, " "), out)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	return b.String()
}
