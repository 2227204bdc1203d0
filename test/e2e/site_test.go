// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/e2e/frame"
	"stowage.dev/stowage/test/e2e/install"
)

// ours is the name of the second scheduler.
const ours = "stowage-scheduler"

// classes are those of the shared site. Each test has its own class or its own disks.
var classes = append([]install.Class{
	class("files", nil),
	class("folders", map[string]any{"allowDirectories": true, "directoryPattern": "disk*"}),
	class("formatted", nil),
	class("fenced", nil),
	class("fenced-xfs", map[string]any{"fsType": "xfs"}),
	class("fenced-raw", map[string]any{"volumeMode": "Block"}),
	class("blocks", map[string]any{"volumeMode": "Block"}),
	class("slow", map[string]any{"volumeMode": "Block", "blockCleanerCommand": []string{"dd-zero", "100"}}),
	class("owned", nil),
	class("set", nil),
	class("chosen", nil),
	class("guarded", nil),
	class("labelled", nil),
	class("mounted", map[string]any{"mount": "Agent", "fsType": "ext4"}),
}, losable...)

// site is a cluster with all of Stowage on three nodes, including monitors and, where it is served, the
// policy for labelled namespaces, which tests share. Each test has its own class there, and the nodes'
// folder for it. Folders that become volumes are in a file system of their node: the machine's has
// the files of all nodes' disks, by which it is in use.
var site = frame.NewSite(install.Options(install.Config{
	Folders:         []string{"overlays/monitored"},
	WithoutPolicies: []string{"overlays/default", "monitoring"},
	Before:          installOperatorKinds,
	Nodes: []realnode.NodeSpec{
		frame.Node("one"), frame.Node("two"),
		frame.Node("three", realnode.Disk{Kind: realnode.Ext4, Path: slot("folders"), Size: 64 << 20}),
	},
	Classes: classes,
	// A test repairs devices that have answered with errors for longer than it takes until they
	// count as failing, which would need a reset.
	Provisioner: map[string]string{"diskHealth": "{failingErrors: 1000}"},
	Patches:     []string{nodesMkfs},
}))

// needsPolicies skips a test of our MutatingAdmissionPolicies on an API server that does not serve
// their version. It asks the shared cluster, so it is called before Parallel: our policies cannot be
// installed on one that does not serve them.
func needsPolicies(t *testing.T) {
	t.Helper()
	served, err := install.HasPolicies(frame.New(t).Client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	if !served {
		t.Skip("the API server does not serve MutatingAdmissionPolicy of admissionregistration.k8s.io/v1, which Kubernetes has from 1.36 on")
	}
}

// class is a class whose folder has its name.
func class(name string, settings map[string]any) install.Class {
	all := map[string]any{"hostDir": slot(name)}
	maps.Copy(all, settings)
	return install.Class{Name: name, Settings: all}
}

// slot is a path in the folder of a class.
func slot(class string, elements ...string) string {
	return filepath.Join(append([]string{"/mnt/disks", class}, elements...)...)
}

// plug adds disks to a node that outlives the test. They are removed after it, so that no
// other test uses their volumes.
func plug(e *frame.Env, node string, disks ...realnode.Disk) {
	e.T.Helper()
	n := e.Cluster.Node(node)
	for _, d := range disks {
		if _, err := n.AddDisk(e.Context, d); err != nil {
			e.T.Fatal(err)
		}
		e.T.Cleanup(func() {
			if e.T.Failed() {
				return
			}
			deletePods(e)
			if err := n.RemoveDisk(e.Context, d.Path); err != nil {
				e.T.Logf("this disk stays: %v", err)
			}
		})
	}
}

// deletePods deletes all pods of the test, and returns when they are deleted.
func deletePods(e *frame.Env) {
	pods, err := e.Client.CoreV1().Pods(e.Namespace).List(e.Context, metav1.ListOptions{})
	if err != nil {
		e.T.Error(err)
		return
	}
	for _, pod := range pods.Items {
		remove(e, pod.Name)
	}
	for _, pod := range pods.Items {
		gone(e, pod.Name)
	}
}

// remove deletes a pod and does not wait for its end.
func remove(e *frame.Env, pod string) {
	e.T.Helper()
	err := e.Client.CoreV1().Pods(e.Namespace).Delete(e.Context, pod, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		e.T.Error(err)
	}
}

// gone waits until a pod is deleted. kubelet has unmounted its volumes then, but perhaps not their
// devices.
func gone(e *frame.Env, pod string) {
	e.T.Helper()
	e.WaitGone("pod/" + pod)
}
