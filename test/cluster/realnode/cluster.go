// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package realnode runs Kubernetes clusters with real nodes on one machine, as root: a control
// plane of package cluster with all controllers, RBAC and the Node authorizer, and nodes that
// run containerd, kubelet and kube-proxy. Pods are real, mount real volumes, and reach the API
// server as they do elsewhere.
//
//	binaries, err := realnode.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
//	...
//	c, err := realnode.Start(ctx, realnode.Config{Binaries: binaries, Images: []string{"bin/images/stowage-provisioner.tar"}})
//	...
//	defer c.Stop()
//	nodes, err := c.AddNodes(ctx,
//		realnode.NodeSpec{Name: "a", Disks: []realnode.Disk{{Kind: realnode.Ext4, Path: "/mnt/disks/fast/1", Size: 64 << 20}}},
//		realnode.NodeSpec{Name: "b"})
//	...
//	out, err := c.Kubectl(ctx, "get", "nodes")
//	err = nodes[0].Kill()     // a power cut
//	err = nodes[0].Start(ctx) // with its files and disks
//
// A node has its own PID, mount, network, UTS and IPC namespaces. Its root file system has the
// machine's programs, and its own /var, /mnt, /run, /tmp, /etc and so on: /var/lib/kubelet and
// /etc/fstab are the node's. It sees all devices of the machine.
//
// Everything ends with the process that called Start, however it ends, and leaves no
// mounts, loop devices, networks and control groups. See docs/design/real-nodes.md.
package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/requirements"
)

// Cluster is a control plane with real nodes. Safe for concurrent use.
type Cluster struct {
	*cluster.Cluster
	config  Config
	network *network
	images  []string // archives that every node has

	mu    sync.Mutex
	nodes []*Node
}

// Start runs a control plane and the stock scheduler, and returns when the API server and the
// controllers are ready. ctx limits how long that may take and does not matter afterwards: call
// Stop to end the cluster.
// When the calling process is killed, everything ends with it.
func Start(ctx context.Context, config Config) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start a cluster of real nodes: %w", err)
			if c.Cluster != nil {
				err = errors.Join(err, c.Stop())
			}
		}
	}()
	if c.config, err = config.complete(); err != nil {
		return nil, err
	}
	if err := sweep(); err != nil {
		return nil, fmt.Errorf("remove what a killed run left: %w", err)
	}
	if err := allowWatchers(ctx); err != nil {
		return nil, err
	}
	control := c.config.Cluster
	control.Network = func(control *cluster.Cluster) (string, error) { return c.makeNetwork(ctx, control) }
	if c.Cluster, err = cluster.Start(ctx, control); err != nil {
		return nil, err
	}
	if err := c.makeImages(); err != nil {
		return nil, err
	}
	if !c.config.NoScheduler {
		_, err = c.StartScheduler(cluster.SchedulerOptions{})
	}
	return c, err
}

// makeNetwork makes the nodes' network, which has the API server's address.
func (c *Cluster) makeNetwork(ctx context.Context, control *cluster.Cluster) (string, error) {
	p, err := control.StartProcess(cluster.ProcessOptions{Name: "network", Binary: c.config.Binaries.Init, Namespaces: syscall.CLONE_NEWNET})
	if err != nil {
		return "", err
	}
	if err := record(control); err != nil {
		return "", fmt.Errorf("record what must be removed: %w", err)
	}
	if err := makeGroups(control); err != nil {
		return "", fmt.Errorf("make control groups: %w", err)
	}
	if c.network, err = newNetwork(ctx, p.PID()); err != nil {
		return "", err
	}
	return c.network.slot.machine(), nil
}

// makeImages writes the archive of the image that comes with this package.
func (c *Cluster) makeImages() error {
	image, err := busybox(c.config.Binaries.Init)
	if err != nil {
		return err
	}
	file := filepath.Join(c.Folder(), "busybox.tar")
	c.images = append(slices.Clone(c.config.Images), file)
	return image.Write(file)
}

// Stop kills the nodes and the control plane and removes everything except the cluster's
// folder if that is kept. Stopping again does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	nodes := slices.Clone(c.nodes)
	c.mu.Unlock()
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.Kill())
	}
	for _, n := range nodes {
		errs = append(errs, n.releaseDisks())
	}
	return errors.Join(append(errs, c.Cluster.Stop())...)
}

// Node returns a node by name, nil if it does not exist.
func (c *Cluster) Node(name string) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.nodes, func(n *Node) bool { return n.Name == name }); i >= 0 {
		return c.nodes[i]
	}
	return nil
}

// add makes the node known, which gives it its index.
func (c *Cluster) add(spec NodeSpec) (*Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.Name == spec.Name }) {
		return nil, fmt.Errorf("add node %s: the name is in use; Node.Start starts a node again", spec.Name)
	}
	index := 1
	for slices.ContainsFunc(c.nodes, func(n *Node) bool { return n.index == index }) {
		index++
	}
	if index > maxNodes {
		return nil, fmt.Errorf("add node %s: a cluster may have %d", spec.Name, maxNodes)
	}
	n := newNode(c, spec, index)
	if err := os.MkdirAll(n.path("disks"), 0o755); err != nil {
		return nil, err
	}
	c.nodes = append(c.nodes, n)
	return n, nil
}

// AddNodes starts new nodes side by side and returns them, in order, when all are Ready. With an
// error, nodes that could not be made are nil.
func (c *Cluster) AddNodes(ctx context.Context, specs ...NodeSpec) ([]*Node, error) {
	nodes := make([]*Node, len(specs))
	errs := make([]error, len(specs))
	for i, spec := range specs {
		if errs[i] = spec.check(); errs[i] == nil {
			nodes[i], errs[i] = c.add(spec)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nodes, err
	}
	var group errgroup.Group
	for _, n := range nodes {
		group.Go(func() error {
			for _, d := range n.spec.Disks {
				if _, err := n.AddDisk(ctx, d); err != nil {
					return err
				}
			}
			return n.Start(ctx)
		})
	}
	return nodes, group.Wait()
}

// RemoveNode kills a node, removes its files and deletes its Node object.
func (c *Cluster) RemoveNode(ctx context.Context, n *Node) error {
	if err := n.Kill(); err != nil {
		return err
	}
	if err := errors.Join(n.releaseDisks(), os.RemoveAll(n.path())); err != nil {
		return fmt.Errorf("remove node %s: %w", n.Name, err)
	}
	c.mu.Lock()
	c.nodes = slices.DeleteFunc(c.nodes, func(other *Node) bool { return other == n })
	c.mu.Unlock()
	err := c.Client().CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove node %s: %w", n.Name, err)
	}
	return nil
}

// Kubectl runs kubectl as an administrator and returns its standard output. The
// error has its standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	command := append([]string{c.config.Binaries.Node.Kubectl}, args...)
	return output(ctx, nil, []string{"KUBECONFIG=" + c.Kubeconfig(), "KUBECACHEDIR=" + c.Folder() + "/kubectl"}, command...)
}

// watchers is how many inotify instances root may have. A node with a provisioner takes 10, a control
// plane 8; Linux allows 128 by default.
const watchers = 2048

// allowWatchers raises the machine's limit for good, if it is lower: other clusters may need it
// when this one ends.
func allowWatchers(ctx context.Context) error {
	const file = "/proc/sys/fs/inotify/max_user_instances"
	script := fmt.Sprintf("[ $(cat %[1]s) -ge %[2]d ] || echo %[2]d >%[1]s", file, watchers)
	return run(ctx, "", "sh", "-ec", script)
}

// gracePeriod is how long the heartbeats of a node may be missing before it is not Ready: a third
// of the default of Kubernetes.
const gracePeriod = 16 * time.Second

// Config configures Start. The zero value of all fields but Binaries is a cluster as
// administrators install it: all controllers, RBAC, the Node authorizer and the stock scheduler.
type Config struct {
	// Binaries to run, as Build returns them.
	Binaries Binaries
	// Cluster configures the control plane. Binaries, Address, NoKwok and, unless they are
	// set, the controllers are filled in.
	Cluster cluster.Config
	// Images are archives (docker save's or the OCI's format) that every node has.
	Images []string
	// NoScheduler leaves kube-scheduler out; Cluster.StartScheduler starts another one.
	NoScheduler bool
}

// Binaries are what clusters of real nodes run.
type Binaries struct {
	Cluster cluster.Binaries
	Node    cluster.NodeBinaries
	// Init is process 1 of nodes, and that of pods.
	Init string
}

// Build builds all binaries, unless they exist already; see cluster.Build.
func Build(ctx context.Context, o cluster.BuildOptions) (b Binaries, err error) {
	if b.Cluster, err = cluster.Build(ctx, o); err != nil {
		return Binaries{}, err
	}
	if b.Node, err = cluster.BuildNode(ctx, o); err != nil {
		return Binaries{}, err
	}
	// Linked statically: the image of pods has no libraries.
	b.Init, err = cluster.BuildCommand(ctx, o, "stowage.dev/stowage/test/cluster/realnode/nodeinit", "-tags=netgo,osusergo")
	return b, err
}

// complete fills in defaults and reports what cannot work.
func (c Config) complete() (Config, error) {
	if err := requirements.Missing(requirements.Nodes); err != nil {
		return c, err
	}
	if c.Binaries.Init == "" || c.Binaries.Node.Kubelet == "" {
		return c, errors.New("Config.Binaries is not set: use what Build returns")
	}
	c.Cluster.Binaries = c.Binaries.Cluster
	c.Cluster.NoKwok = true
	m := &c.Cluster.ControllerManager
	if m.Controllers == nil {
		m.Controllers = cluster.AllControllers
	}
	m.ExtraArgs = append([]string{"--node-monitor-period=1s", "--node-monitor-grace-period=" + gracePeriod.String()}, m.ExtraArgs...)
	c.Cluster.APIServer.ExtraArgs = append([]string{"--enable-admission-plugins=NodeRestriction"}, c.Cluster.APIServer.ExtraArgs...)
	return c, nil
}
