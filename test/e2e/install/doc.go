// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package install installs Stowage on a cluster of real nodes, as its users do: nodes have the
// images that "make images" makes, and kubectl applies a kustomization that names a folder of
// manifests and what this cluster wants else. All parts run in pods, each as its own service
// account.
//
//	var site = frame.NewSite(install.Options(install.Config{
//		Nodes:   []realnode.NodeSpec{frame.Node("one"), frame.Node("two")},
//		Classes: []install.Class{{Name: "fast", Settings: map[string]any{"hostDir": "/mnt/disks/fast"}}},
//	}))
//
//	func TestVolumes(t *testing.T) {
//		e := site.New(t)
//		...
//	}
//
// Nothing is pulled: the tag of the images is not "latest", and every node has them.
package install
