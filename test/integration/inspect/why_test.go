// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"stowage.dev/stowage/cmd/kubectl-stowage/app"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// admin is the user with all rights.
const admin = ""

// plugin runs the plugin as a user, and returns its output and its error.
func plugin(e *fixture.Env, user string, args ...string) string {
	e.T.Helper()
	file := e.Cluster.Kubeconfig()
	if user != admin {
		var err error
		if file, err = e.Cluster.KubeconfigFor(user); err != nil {
			e.T.Fatal(err)
		}
	}
	return run(e, append(args, "--kubeconfig", file, "--namespace", e.Namespace)...)
}

// run runs the plugin with the flags alone.
func run(e *fixture.Env, args ...string) string {
	var out bytes.Buffer
	cmd := app.NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(e.Context()); err != nil {
		out.WriteString("error: " + err.Error())
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// TestWhy: an administrator is shown all reasons and what would help, which helps; users with fewer rights get what
// they can read, and never that a pod fits.
func TestWhy(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Shared()
	e.AddNodes(e.Node("a"), e.Node("b"))
	e.CreatePVs(e.LocalPV("small", "a").Capacity("5Gi"))
	e.CreatePVC(e.PVC("data").Request("10Gi"))
	pod := e.CreatePod(e.Pod("db").PVC("data"))
	e.WaitUnschedulable(pod, "didn't find available persistent volumes")

	sample, err := os.ReadFile("../../../manifests/scheduler/second/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, bytes.ReplaceAll(sample, []byte("schedulerName: stowage-scheduler"), []byte("schedulerName: "+pod.Spec.SchedulerName)), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Grant("owner", []string{"pods", "persistentvolumeclaims"}, []string{"list"})

	check := func(got string, want ...string) {
		t.Helper()
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("output lacks %q:\n%s", text, got)
			}
		}
	}
	check(plugin(e, admin, "why", "db", "--config", config),
		"no fitting volume for claim data", "add a volume of at least 10Gi", "recreate claim data with a request of at most 5Gi, for node "+e.Name("a"))
	check(plugin(e, admin, "why", "pvc", "data"), "data")
	check(plugin(e, admin, "why", "pv", e.Name("small")), "5Gi")
	check(plugin(e, admin, "why", "node", e.Name("a")), e.Name("a"))
	check(plugin(e, admin, "why", "pvc", "dat"), `error: there is no claim "dat" in namespace `+e.Namespace)
	check(plugin(e, admin, "why", "database"), `error: there is no pod "database" in namespace `+e.Namespace)
	check(plugin(e, admin, "map", "--node", e.Name("a")), "5Gi")

	got := plugin(e, "owner", "why", "db", "--config", config)
	check(got, "cannot be said, because these could not be read", "nodes", "The scheduler said: 0/")
	if strings.HasPrefix(got, "Pod") {
		t.Errorf("a user who sees no nodes reads that the pod fits:\n%s", got)
	}
	check(plugin(e, "stranger", "why", "db", "--config", config), "error: you may not list pods in namespace "+e.Namespace)
	check(run(e, "why", "db", "--server", "https://127.0.0.1:1"), "error: read the version of the API server at https://127.0.0.1:1")

	e.CreatePVs(e.LocalPV("large", "a").Capacity("10Gi"))
	e.WaitScheduled(pod, "a")
	placed := e.WaitPod(pod, "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	check(plugin(e, admin, "why", "db"), "is on node "+placed.Spec.NodeName+", and is running", "is bound to "+e.Name("large"))
}

// TestReadsLocalDisks: LocalDisks are read from an API server that serves them, with their health.
func TestReadsLocalDisks(t *testing.T) {
	t.Parallel()
	e := fixture.NewOn(t, fixture.DefaultConfig())
	e.AddNodes(e.Node("a"))
	node := e.Name("a")
	client, err := dynamic.NewForConfig(e.Cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	e.Do(func(ctx context.Context) error {
		return e.Cluster.CreateFiles(ctx, "../../../manifests/crd/stowage.dev_localdiskreports.yaml", "../../../manifests/crd/stowage.dev_localdisks.yaml")
	})
	for i, status := range []string{
		"state: Assigned, class: fast, path: /mnt/fast/a, health: Degraded, reason: DriveWarning, message: the drive warns",
		"state: Missing, health: Degraded, reason: Missing, message: it is not attached", "state: Missing, health: Failing, reason: Missing, message: it is not attached",
	} {
		objects, err := cluster.Objects(fmt.Appendf(nil, `{apiVersion: stowage.dev/v1alpha1, kind: LocalDisk, metadata: {name: %[1]s.%02[2]d}, spec: {nodeName: %[1]s},
			status: {identity: "wwn:%[2]d", device: /dev/sda, bytes: 1073741824, size: 1Gi, %[3]s}}`, node, i, status))
		if err != nil {
			t.Fatal(err)
		}
		disk := objects[0]
		resource := cluster.ResourceOf(client, disk)
		e.Do(func(ctx context.Context) error { // the kind is served some time after it is created
			return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
				created, err := resource.Create(ctx, disk, metav1.CreateOptions{})
				switch {
				case apierrors.IsNotFound(err):
					return false, nil
				case err != nil:
					return false, err
				}
				disk.SetResourceVersion(created.GetResourceVersion())
				return true, nil
			})
		})
		e.Do(func(ctx context.Context) error {
			_, err := resource.UpdateStatus(ctx, disk, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
			return err
		})
	}
	for _, test := range []struct{ args, want string }{
		{"why disk/" + node + ".00", "DriveWarning: the drive warns. It is degraded."},
		{"why disk/" + node + ".01", "It was degraded before."},
		{"map --by node", "MISSING DEGRADED FAILING " + node + " 0 - 0 2 1 1"},
	} {
		if got := plugin(e, admin, strings.Fields(test.args)...); !strings.Contains(got, test.want) {
			t.Errorf("%s: lacks %q:\n%s", test.args, test.want, got)
		}
	}
}
