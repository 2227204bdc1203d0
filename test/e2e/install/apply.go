// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"stowage.dev/stowage/test/cluster/realnode"
)

// Apply adds the nodes of a configuration, applies its manifests, and returns when they are
// rolled out.
func Apply(ctx context.Context, on *realnode.Cluster, c Config) error {
	if _, err := on.AddNodes(ctx, c.Nodes...); err != nil {
		return err
	}
	if c.Before != nil {
		if err := c.Before(ctx, on); err != nil {
			return err
		}
	}
	for _, node := range c.Nodes {
		if err := MakeFolders(ctx, on.Node(node.Name), c.Classes); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(on.Folder(), "install-")
	if err != nil {
		return err
	}
	if err := c.write(dir); err != nil {
		return fmt.Errorf("write a kustomization: %w", err)
	}
	if _, err := on.Kubectl(ctx, "apply", "--server-side", "-k", dir); err != nil {
		return fmt.Errorf("install %s: %w", strings.Join(c.folders(), " and "), err)
	}
	return RolledOut(ctx, on)
}

// MakeFolders makes the folders of classes on a node. A node that is added later needs them
// before its provisioner is ready.
func MakeFolders(ctx context.Context, n *realnode.Node, classes []Class) error {
	args := []string{"mkdir", "-p", "/mnt/disks"}
	for _, class := range classes {
		if dir, ok := class.Settings["hostDir"].(string); ok {
			args = append(args, dir)
		}
	}
	_, err := n.Run(ctx, nil, args...)
	return err
}

// RolledOut waits until all installed pods are ready, except those that never
// are: of the extender only the leader is.
func RolledOut(ctx context.Context, on *realnode.Cluster) error {
	out, err := on.Kubectl(ctx, "get", "deployments,daemonsets", "--all-namespaces", "--selector=app.kubernetes.io/part-of=stowage",
		`--output=jsonpath={range .items[*]}{.metadata.namespace} {.kind}/{.metadata.name}{"\n"}{end}`)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for line := range strings.Lines(out) {
		namespace, workload, _ := strings.Cut(strings.TrimSpace(line), " ")
		args := []string{"rollout", "status", "--namespace=" + namespace, workload}
		if workload == "Deployment/stowage-extender" {
			args = []string{"wait", "--timeout=-1s", "--for=jsonpath={.status.readyReplicas}", "--namespace=" + namespace, workload}
		}
		group.Go(func() error {
			if _, err := on.Kubectl(ctx, args...); err != nil {
				return errors.Join(fmt.Errorf("roll out %s: %w", workload, err), describe(on, namespace))
			}
			return nil
		})
	}
	return group.Wait()
}

// describe returns the state of the pods of a namespace.
func describe(on *realnode.Cluster, namespace string) error {
	ctx, cancel := context.WithTimeout(context.Background(), tellTimeout)
	defer cancel()
	out, err := on.Kubectl(ctx, "describe", "pods", "--namespace="+namespace)
	if err != nil {
		return err
	}
	return errors.New(out)
}
