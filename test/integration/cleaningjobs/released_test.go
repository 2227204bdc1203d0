// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cleaningjobs_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"stowage.dev/stowage/pkg/localdisk/migrate"
	"stowage.dev/stowage/test/integration/node"
	"stowage.dev/stowage/test/provisioners"
)

// uninstaller is a client with the rights of manifests/uninstall.
func uninstaller(t *testing.T, n *node.Node) kubernetes.Interface {
	t.Helper()
	if err := n.Env.Cluster.CreateFiles(n.Env.Context(), "../../../manifests/uninstall/rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	path, err := n.Env.Cluster.KubeconfigFor("system:serviceaccount:stowage-system:stowage-release",
		"system:serviceaccounts", "system:serviceaccounts:stowage-system", "system:authenticated")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestReleaseEndsJobs: a volume whose disk a Job wipes is not released, without a provisioner,
// until the Job has ended. It runs alone, as it ends all provisioners and Jobs.
func TestReleaseEndsJobs(t *testing.T) { //nolint:paralleltest // See above.
	n := newNodeAlone(t)
	slow(t, n)
	k := startKubelet(t, n)
	volume := begun(t, n)
	process := k.next()
	waitAnswer(t, n, "answered with a Job", isRunning)
	ctx, cancel := context.WithTimeout(n.Env.Context(), n.Env.Timeout)
	defer cancel()
	sets, pods := n.Env.Client.AppsV1().DaemonSets(provisioners.Namespace), n.Env.Client.CoreV1().Pods(provisioners.Namespace)
	daemonSet, err := sets.Get(ctx, account, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // other tests' Jobs take their image from it
		daemonSet.ObjectMeta = metav1.ObjectMeta{Name: daemonSet.Name}
		if _, err := sets.Create(context.WithoutCancel(ctx), daemonSet, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	n.Kill()
	err = pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + n.Name + ",spec.serviceAccountName=" + account,
	})
	if err != nil {
		t.Fatal(err)
	}

	client, options := uninstaller(t, n), migrate.ReleaseOptions{Namespace: provisioners.Namespace, Nodes: []string{n.Name}}
	held, err := migrate.FindHeld(ctx, client, options)
	if err != nil || len(held) != 1 || !strings.Contains(held[0].Kept, "still being cleaned (Job ") {
		t.Fatalf("held are %+v, %v, want the volume kept for its Job", held, err)
	}
	if err := migrate.StopProvisioners(ctx, client, provisioners.Namespace); err != nil {
		t.Fatal(err)
	}
	select {
	case <-process.Done():
	default:
		t.Error("the Job's process still runs")
	}
	if names := made(t, n); len(names) > 0 {
		t.Errorf("the Jobs %q are left", names)
	}
	held, err = migrate.FindHeld(ctx, client, options)
	if err != nil || len(held) != 1 || held[0].Kept != "" || held[0].Data != migrate.NotCleaned {
		t.Fatalf("held are %+v, %v, want the volume releasable and not cleaned", held, err)
	}
	if err := migrate.Release(ctx, client, &held[0]); err != nil {
		t.Fatal(err)
	}
	n.Env.Wait("the volume to be deleted", func() bool {
		for _, pv := range n.Env.AllPVs() {
			if pv.UID == volume.UID {
				return false
			}
		}
		return true
	})
	if names := n.Names("disk1"); len(names) != 1 || names[0] != "b" {
		t.Errorf("the disk holds %q, want what the Job had not removed when it was ended", names)
	}
}
