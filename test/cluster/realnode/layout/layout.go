// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package layout has the paths in a real node, for both the package that starts it and
// the node's process 1.
package layout

// Paths in a node.
const (
	// NotifySocket is where process 1 and services report that they are ready, as to systemd.
	NotifySocket = "/.notify"
	// Kubernetes has kubelet and kube-proxy.
	Kubernetes = "/opt/kubernetes"
	// Containerd is the container runtime's socket.
	Containerd = "/run/containerd/containerd.sock"
	// Registries has a folder for each registry, by host and port, whose hosts.toml configures
	// how containerd reaches it.
	Registries = "/etc/containerd/certs.d"
)

// Node is the configuration of a node's process 1. All paths are the machine's.
type Node struct {
	// Name is the node's host name.
	Name string
	// Root is the folder that becomes the root of the node's file system.
	Root string
	// Etc is the folder that has what differs from the machine's /etc, and EtcWork an empty
	// one beside it.
	Etc, EtcWork string
	// BootID is a file to be shown as the kernel's boot id, which differs from boot to boot.
	BootID string
	// Kubernetes is the folder with the binaries.
	Kubernetes string
}
