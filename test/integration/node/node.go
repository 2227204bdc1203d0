// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node gives integration tests a node with real disks and a real provisioner: the
// Node object is simulated, the disks are file systems and loop devices of this
// machine, and the provisioner is the stowage-provisioner command with the manifests' rights,
// their policies, and the token that a kubelet would mount.
//
//	func TestMain(m *testing.M) { os.Exit(fixture.Main(m, node.Install)) }
//
//	e := fixture.New(t)
//	n := node.New(t, e, "a")     // skips the test where it cannot mount
//	n.Mount("disk1", "64M")      // an ext4 in the folder of class n.Files
//	n.Device("disk1", "64M")     // a loop device in that of class n.Blocks
//	n.Start()
//	pv := n.WaitPhase(n.Files, "disk1", corev1.VolumeAvailable)
//
// A node has its own folder: disks, configuration, state
// and a kubelet's folder. Whatever is mounted or attached is undone after the test.
package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/localpv"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/provisioners"
)

// Node is a node with disks. Its methods fail the test rather than return errors; call
// them from the test's own goroutine.
type Node struct {
	Env *fixture.Env
	// Name is the Node's, and its hostname label.
	Name string
	// Folder has everything: "files" and "blocks" are the discovery directories,
	// "config" the ConfigMap, "state" the provisioner's records, "kubelet" a kubelet's
	// folder, "images" the disks' backing files.
	Folder string
	// Files and Blocks are the classes of the discovery directories: of volume modes
	// Filesystem and Block.
	Files, Blocks string
	// Args are added to the provisioner's.
	Args []string
	// Binary is the provisioner that Start runs: that of this tree, unless a test sets it.
	Binary string

	t           testing.TB
	folders     map[string]string         // of the classes, by name
	options     map[string]map[string]any // their configuration
	provisioner *cluster.Process
}

// New adds a node without disks. The provisioner is not running. Without root, which disks
// require, the test is skipped.
func New(t testing.TB, e *fixture.Env, name string) *Node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("to mount file systems and to attach loop devices takes root")
	}
	n := &Node{
		Binary: binary,
		Env:    e, Name: e.Name(name), Files: e.Name(name + "-files"), Blocks: e.Name(name + "-blocks"), t: t,
		folders: map[string]string{}, options: map[string]map[string]any{},
	}
	var err error
	n.Folder, err = os.MkdirTemp("", "stowage-node-") //nolint:usetesting // What is removed with a mount still in it is removed in the mount.
	n.do(err)
	t.Cleanup(func() {
		if err := os.RemoveAll(n.Folder); err != nil {
			t.Error(err)
		}
	})
	n.do(os.Mkdir(n.Path("images"), 0o755))
	n.do(n.process().MakeFolders())
	e.AddNodes(e.Node(name))
	n.offer(n.Files, "files", nil)
	n.offer(n.Blocks, "blocks", map[string]any{"volumeMode": "Block"})
	e.CreateClass(e.Class(n.Files).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	e.CreateClass(e.Class(n.Blocks).ReclaimPolicy(corev1.PersistentVolumeReclaimDelete))
	n.Configure(nil)
	n.Login()
	t.Cleanup(n.forget)
	e.OnDump(func() string { return fmt.Sprintf("report of %s:\n%s", n.Name, n.report()) })
	return n
}

// do fails the test if err is not nil.
func (n *Node) do(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// Path is a path in the node's folder.
func (n *Node) Path(elements ...string) string {
	return filepath.Join(append([]string{n.Folder}, elements...)...)
}

// PathOf is the path of a slot.
func (n *Node) PathOf(class, name string) string {
	return filepath.Join(n.folders[class], name)
}

// Configure writes the provisioner's configuration: the node's classes, changed by change if it
// is not nil (keys of the ConfigMap, with the objects that are their values).
func (n *Node) Configure(change func(data map[string]any)) {
	n.t.Helper()
	classes := map[string]any{}
	for class, options := range n.options {
		classes[class] = maps.Clone(options)
	}
	data := map[string]any{"minResyncPeriod": "2s", "orphanGracePeriod": "1s", "storageClassMap": classes}
	if change != nil {
		change(data)
	}
	n.do(n.process().Configure(data))
}

// WriteConfig writes a key of the configuration unchanged.
func (n *Node) WriteConfig(key, text string) {
	n.t.Helper()
	n.do(n.process().WriteConfig(key, text))
}

// Login provides the provisioner with the token that kubelet would mount, which New does, and
// tests for a Node that was recreated.
func (n *Node) Login() {
	n.t.Helper()
	pod, err := n.process().Login(n.Env.Context())
	n.t.Cleanup(func() {
		_ = n.Env.Client.CoreV1().Pods(provisioners.Namespace).Delete(context.Background(), pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
	n.do(err)
}

// Start runs the provisioner. It is stopped after the test.
func (n *Node) Start() {
	n.t.Helper()
	if n.provisioner != nil {
		n.t.Fatal("the provisioner runs already")
	}
	var err error
	n.provisioner, err = n.process().Start(n.Args...)
	n.do(err)
	n.t.Cleanup(n.finish)
}

// process is how the provisioner is run.
func (n *Node) process() provisioners.Process {
	return provisioners.Process{Cluster: n.Env.Cluster, Binary: n.Binary, Node: n.Name, Folder: n.Folder}
}

// finish ends the provisioner after the test, and shows its log if the test failed.
func (n *Node) finish() {
	if n.provisioner == nil {
		return
	}
	log := n.provisioner.LogFile()
	n.Kill()
	if !n.t.Failed() {
		return
	}
	if text, err := os.ReadFile(log); err == nil {
		n.t.Logf("provisioner of %s:\n%s\nand its report:\n%s", n.Name, tail(text, 20_000), n.report())
	}
}

func tail(text []byte, most int) []byte {
	return text[max(0, len(text)-most):]
}

// Process is the provisioner's; nil if it does not run.
func (n *Node) Process() *cluster.Process { return n.provisioner }

// Kill ends the provisioner at once, as a crash would.
func (n *Node) Kill() {
	n.t.Helper()
	if n.provisioner == nil {
		return
	}
	if err := n.provisioner.Kill(); err != nil {
		n.t.Error(err)
	}
	n.provisioner = nil
}

// Stop terminates the provisioner, and waits for its end.
func (n *Node) Stop() {
	n.t.Helper()
	ctx, cancel := deadline.Context(context.Background())
	defer cancel()
	if err := n.provisioner.Stop(ctx); err != nil {
		n.t.Error(err)
	}
	n.provisioner = nil
}

// forget deletes the node's volumes and their links after the test, when no provisioner removes the
// finalizer any more.
func (n *Node) forget() {
	n.Kill()
	for class := range n.options {
		if err := os.RemoveAll(filepath.Join(disk.LinkFolder, class)); err != nil {
			n.t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.Env.Timeout)
	defer cancel()
	client := n.Env.Client.CoreV1().PersistentVolumes()
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: localpv.Selector(n.Name)})
	if err != nil {
		n.t.Error(err)
		return
	}
	for _, volume := range list.Items {
		if err := client.Delete(ctx, volume.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil && !apierrors.IsNotFound(err) {
			n.t.Error(err)
		}
		if err := n.StripFinalizers(ctx, volume.Name); err != nil {
			n.t.Error(err)
		}
	}
}

// StripFinalizers removes all finalizers of a volume, as an administrator may.
func (n *Node) StripFinalizers(ctx context.Context, volume string) error {
	_, err := n.Env.Client.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take the finalizers off volume %s: %w", volume, err)
	}
	return nil
}

// binary is the provisioner, set by Install before any test runs.
var binary string

// Install builds the provisioner and applies its manifests, for fixture.Main.
func Install(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	if binary, err = provisioners.Build(ctx, os.Stderr); err != nil {
		return nil, err
	}
	return func() {}, provisioners.Apply(ctx, c)
}

// AddClass adds a class to the configuration, with its own discovery directory and
// options (keys of a class), and returns its name: that of the StorageClass
// Env.Class(name), which the test creates. Every node has the classes
// "files" and "blocks".
func (n *Node) AddClass(name string, options map[string]any) string {
	n.t.Helper()
	class := n.Env.Name(name)
	n.offer(class, name, options)
	n.Configure(nil)
	return class
}

// Set sets a key of a class in the configuration; nil removes it.
func (n *Node) Set(class, key string, value any) {
	n.t.Helper()
	n.options[class][key] = value
	if value == nil {
		delete(n.options[class], key)
	}
	n.Configure(nil)
}

// Select makes a class one that selects disks by rules (its key devices), instead of a folder.
func (n *Node) Select(class string, devices map[string]any) {
	n.t.Helper()
	delete(n.options[class], "hostDir")
	n.folders[class] = filepath.Join("/dev/stowage/devices", class)
	n.Set(class, "devices", devices)
	n.t.Cleanup(func() {
		if err := os.RemoveAll(n.folders[class]); err != nil {
			n.t.Error(err)
		}
	})
}

// offer adds a class, whose discovery directory is in the node's folder.
func (n *Node) offer(class, folder string, options map[string]any) {
	n.t.Helper()
	n.folders[class] = n.Path(folder)
	n.do(os.MkdirAll(n.folders[class], 0o755))
	n.options[class] = map[string]any{"hostDir": n.folders[class]}
	maps.Copy(n.options[class], options)
	n.do(provisioners.AllowClass(n.Env.Context(), n.Env.Client, class))
}
