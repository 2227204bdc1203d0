// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
)

// NodeBinaries are the paths of the programs of real nodes, and of kubectl. They are in
// one folder.
type NodeBinaries struct {
	Kubelet   string
	KubeProxy string
	Kubectl   string
}

// BuildNode makes the binaries of real nodes as Build makes the control plane's,
// next to those. Most callers of Build have no use for them.
func BuildNode(ctx context.Context, o BuildOptions) (NodeBinaries, error) {
	src, err := findSources(ctx)
	if err != nil {
		return NodeBinaries{}, fmt.Errorf("build kubelet: %w", err)
	}
	var b NodeBinaries
	targets := []target{
		{"kubelet", "k8s.io/kubernetes/cmd/kubelet", &b.Kubelet},
		{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", &b.KubeProxy},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl", &b.Kubectl},
	}
	if err := buildMissing(ctx, src, o, func() []target { return locate(src, targets) }); err != nil {
		return NodeBinaries{}, fmt.Errorf("build kubelet: %w", err)
	}
	return b, nil
}
