// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"maps"
	"os"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/provisioners"
)

// binary is the provisioner, set by Install before any test runs.
var binary string

// Install builds the provisioner and applies its manifests, for fixture.Main.
func Install(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	if binary, err = provisioners.Build(ctx, os.Stderr); err != nil {
		return nil, err
	}
	return func() {}, Apply(ctx, c)
}

// Apply applies the provisioner's manifests.
func Apply(ctx context.Context, c *cluster.Cluster) error { return provisioners.Apply(ctx, c) }

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

// offer adds a class, whose discovery directory is in the node's folder.
func (n *Node) offer(class, folder string, options map[string]any) {
	n.t.Helper()
	n.folders[class] = n.Path(folder)
	n.makeFolder(n.folders[class])
	n.options[class] = map[string]any{"hostDir": n.folders[class]}
	maps.Copy(n.options[class], options)
	n.AllowClass(class)
}

// storageClassMap is the configuration of the classes.
func (n *Node) storageClassMap() map[string]any {
	classes := map[string]any{}
	for class, options := range n.options {
		classes[class] = maps.Clone(options)
	}
	return classes
}

// AllowClass lets provisioners create volumes of a class. All tests share the ConfigMap, so
// classes are only added.
func (n *Node) AllowClass(class string) {
	n.t.Helper()
	if err := provisioners.AllowClass(n.Env.Context(), n.Env.Client, class); err != nil {
		n.t.Fatal(err)
	}
}
