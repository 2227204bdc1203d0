// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import "maps"

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

// Set has the configuration say more of a class; nil takes a key out.
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
