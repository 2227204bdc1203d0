// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode/layout"
)

// namespaces are a node's own ones. Users and control groups are the machine's.
const namespaces = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// Start boots the node and returns when it is Ready. After Kill its files and disks are
// unchanged, after Wipe its disks.
func (n *Node) Start(ctx context.Context) error {
	n.power.Lock()
	defer n.power.Unlock()
	if n.pid() != 0 {
		return fmt.Errorf("start node %s: it is running already", n.Name)
	}
	if err := n.boot(ctx); err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	return nil
}

func (n *Node) boot(ctx context.Context) error {
	boot := string(uuid.NewUUID())
	if err := n.prepare(boot); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{n.startInit, n.mountAll, n.startContainerd, n.proxy.Start} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.Import(ctx, n.cluster.images...) })
	group.Go(func() error {
		if err := n.kubelet.Start(ctx); err != nil {
			return err
		}
		running, cancel := n.kubelet.Process().WhileRunning(ctx)
		defer cancel()
		return n.waitReady(running, boot)
	})
	return group.Wait()
}

// prepare makes the node's folders and files, unless it ran before.
func (n *Node) prepare(boot string) error {
	_, unknown := os.Stat(n.path("etc", "machine-id"))
	for _, dir := range []string{
		"etc", "etc-work", "root/etc", "root/home", "root/mnt", "root/opt", "root/root", "root/srv",
		"root/var/lib/kubelet", "root/var/lib/stowage", "root/var/log",
	} {
		if err := os.MkdirAll(n.path(dir), 0o755); err != nil {
			return err
		}
	}
	if unknown != nil {
		if err := n.writeFiles(); err != nil {
			return err
		}
	}
	if err := n.writeEtc("fstab", []byte(n.fstab())); err != nil {
		return err
	}
	if err := n.makeGroups(); err != nil {
		return err
	}
	if err := os.WriteFile(n.path("boot-id"), []byte(boot+"\n"), 0o644); err != nil {
		return err
	}
	data, err := json.Marshal(layout.Node{
		Name: n.Name, Root: n.root(), Etc: n.path("etc"), EtcWork: n.path("etc-work"), BootID: n.path("boot-id"),
		Kubernetes: filepath.Dir(n.cluster.config.Binaries.Node.Kubelet),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(n.path("layout.json"), data, 0o644)
}

// startInit starts the node's process 1, which makes its root file system, and plugs it into
// the network.
func (n *Node) startInit(ctx context.Context) error {
	var port string
	var pid int
	err := n.waitNotified(ctx, func() (*cluster.Process, error) {
		p, err := n.cluster.StartProcess(cluster.ProcessOptions{
			Name: n.Name + "-init", Binary: n.cluster.config.Binaries.Init, Args: []string{n.path("layout.json")},
			Namespaces: namespaces,
		})
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.init = p
		n.boots++
		pid, port = p.PID(), fmt.Sprintf("node%d-%d", n.index, n.boots)
		return p, nil
	})
	if err != nil {
		return err
	}
	return n.cluster.network.plug(ctx, n, pid, port)
}

func (n *Node) startContainerd(ctx context.Context) error {
	err := n.waitNotified(ctx, func() (*cluster.Process, error) {
		err := n.containerd.Start(ctx)
		return n.containerd.Process(), err
	})
	if err != nil {
		return err
	}
	return n.waitCRI(ctx)
}

// waitCRI returns when containerd answers as kubelet requires, which ends otherwise: after it has notified
// that it is ready, containerd first recovers the containers that it finds.
func (n *Node) waitCRI(ctx context.Context) error {
	conn, err := grpc.NewClient(fmt.Sprintf("unix:///proc/%d/root%s", n.pid(), layout.Containerd), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	running, done := n.containerd.Process().WhileRunning(ctx)
	defer done()
	var last error
	err = wait.PollUntilContextCancel(running, criPause, true, func(ctx context.Context) (bool, error) { //nolint:forbidigo // the API has no event
		last = conn.Invoke(ctx, "/runtime.v1.RuntimeService/Version", &emptypb.Empty{}, &emptypb.Empty{})
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until containerd answers: %w: %w", err, last)
	}
	return nil
}

// criPause is between two requests to a containerd that is not initialized yet.
const criPause = 50 * time.Millisecond

// service is a component that runs in the node's namespaces.
func (n *Node) service(name, healthURL, binary string, args ...string) *cluster.Component {
	name = n.Name + "-" + name
	return cluster.NewComponent(name, func() (*cluster.Process, error) {
		pid := n.pid()
		if pid == 0 {
			return nil, fmt.Errorf("start %s: the node does not run", name)
		}
		nsenter, err := exec.LookPath("nsenter")
		if err != nil {
			return nil, err
		}
		return n.cluster.StartProcess(cluster.ProcessOptions{
			Name: name, Binary: nsenter, Args: slices.Concat(enter(pid)[1:], []string{binary}, args),
			Env: []string{"NOTIFY_SOCKET=" + layout.NotifySocket}, HealthURL: healthURL, Beside: pid,
		})
	})
}

// enter begins a command that runs in a node's namespaces. The parent enters the PID namespace,
// unless flags contain --pid.
func enter(pid int, flags ...string) []string {
	return slices.Concat([]string{"nsenter", "--target", strconv.Itoa(pid), "--mount", "--net", "--uts", "--ipc"}, flags, []string{"--"})
}

// binary is where a node has one of the built binaries.
func (n *Node) binary(path string) string {
	return filepath.Join("/", layout.Kubernetes, filepath.Base(path))
}

func (n *Node) kubeletArgs() []string {
	var labels []string
	for key, value := range n.spec.Labels {
		labels = append(labels, key+"="+value)
	}
	slices.Sort(labels)
	return []string{
		"--config=/etc/kubernetes/kubelet.yaml", "--kubeconfig=/etc/kubernetes/kubelet.conf",
		"--hostname-override=" + n.Name, "--node-ip=" + n.Address,
		"--node-labels=" + strings.Join(labels, ","),
		"--v=2",
	}
}

// Import imports images into the node, from archives on this machine. Images that the node
// has already may be imported again.
func (n *Node) Import(ctx context.Context, archives ...string) error {
	for _, archive := range archives {
		f, err := os.Open(archive)
		if err != nil {
			return err
		}
		_, err = n.Run(ctx, f, "ctr", "--address", layout.Containerd, "--namespace", "k8s.io", "images", "import", "-")
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("import %s: %w", archive, err)
		}
	}
	return nil
}
