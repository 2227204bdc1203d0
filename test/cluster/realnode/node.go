// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/internal/supervise"
	"stowage.dev/stowage/test/cluster/realnode/layout"
)

// NodeSpec describes a node to add.
type NodeSpec struct {
	// Name of the Node object, a DNS label.
	Name string
	// Labels that kubelet registers the node with, such as the topology's; NodeRestriction
	// forbids it others of kubernetes.io.
	Labels map[string]string
	// Disks of the node when it starts first.
	Disks []Disk
}

func (s NodeSpec) check() error {
	if problems := validation.IsDNS1123Label(s.Name); len(problems) > 0 {
		return fmt.Errorf("add node %q: %s", s.Name, strings.Join(problems, "; "))
	}
	for _, d := range s.Disks {
		if err := d.check(); err != nil {
			return fmt.Errorf("add node %s: %w", s.Name, err)
		}
	}
	return nil
}

// Node is a real node: containerd, kubelet and kube-proxy in their own namespaces, with their
// own root file system. Kill is a power cut, Start boots it again.
// Safe for concurrent use.
type Node struct {
	Name string
	// Address is the node's InternalIP, which this machine and all pods reach.
	Address string

	cluster *Cluster
	spec    NodeSpec
	index   int

	containerd, kubelet, proxy *cluster.Component

	power sync.Mutex // held while the node starts, is killed or wiped
	mu    sync.Mutex
	boots int
	init  *cluster.Process // nil before the first start
	disks []*attached
	// written are the disks that fstab names.
	written []*attached
}

func newNode(c *Cluster, spec NodeSpec, index int) *Node {
	n := &Node{Name: spec.Name, Address: c.network.slot.node(index), cluster: c, spec: spec, index: index}
	n.containerd = n.service("containerd", "", "/usr/bin/containerd", "--config=/etc/kubernetes/containerd.toml")
	n.proxy = n.service("kube-proxy", "", n.binary(c.config.Binaries.Node.KubeProxy), "--config=/etc/kubernetes/kube-proxy.yaml")
	n.kubelet = n.service("kubelet", "https://"+n.Address+":10250", n.binary(c.config.Binaries.Node.Kubelet), n.kubeletArgs()...)
	return n
}

// Containerd is the node's container runtime. Killing it leaves containers running.
func (n *Node) Containerd() *cluster.Component { return n.containerd }

// Kubelet is the node's kubelet. Killing it leaves containers running.
func (n *Node) Kubelet() *cluster.Component { return n.kubelet }

// path is in the node's own folder.
func (n *Node) path(elements ...string) string {
	return filepath.Join(append([]string{n.cluster.Folder(), "nodes", n.Name}, elements...)...)
}

func (n *Node) root() string { return n.path("root") }

// pid is that of the node's process 1, 0 if it does not run.
func (n *Node) pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.init == nil || !n.init.Running() {
		return 0
	}
	return n.init.PID()
}

// Kill ends all processes of the node at once, as a power cut does, and returns when they
// have ended. Its disks and file systems stay, except those in memory. Killing a node that does
// not run does nothing.
func (n *Node) Kill() error {
	n.power.Lock()
	defer n.power.Unlock()
	if n.pid() == 0 {
		return nil
	}
	services := []*cluster.Component{n.containerd, n.kubelet, n.proxy}
	for _, s := range services {
		s.Expect()
	}
	errs := []error{n.init.Kill()}
	for _, s := range services {
		errs = append(errs, s.Kill()) // it has ended; this waits until it is reaped
	}
	// Those of its containers, too: its next kubelet would search for them for seconds.
	errs = append(errs, inHierarchies(n.group(), supervise.Prune))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("kill node %s: %w", n.Name, err)
	}
	return nil
}

// Wipe empties the file systems of a node that does not run, as when its machine is
// reinstalled. Its disks keep their data, and the Node object remains.
func (n *Node) Wipe() error {
	n.power.Lock()
	defer n.power.Unlock()
	if n.pid() != 0 {
		return fmt.Errorf("wipe node %s: it is running: kill it first", n.Name)
	}
	n.mu.Lock()
	n.written = slices.Clone(n.disks)
	n.mu.Unlock()
	for _, dir := range []string{"root", "etc", "etc-work"} {
		if err := os.RemoveAll(n.path(dir)); err != nil {
			return fmt.Errorf("wipe node %s: %w", n.Name, err)
		}
	}
	return nil
}

// Run runs a program of this machine in the node's namespaces with stdin, which may be nil,
// and returns its output.
func (n *Node) Run(ctx context.Context, stdin io.Reader, command ...string) (string, error) {
	pid := n.pid()
	if pid == 0 {
		return "", fmt.Errorf("run %s on node %s: it does not run", strings.Join(command, " "), n.Name)
	}
	out, err := output(ctx, stdin, nil, append(enter(pid, "--pid"), command...)...)
	if err != nil {
		return out, fmt.Errorf("on node %s: %w", n.Name, err)
	}
	return out, nil
}

// run runs a program of the machine; its error has the standard error.
func run(ctx context.Context, stdin string, command ...string) error {
	_, err := output(ctx, strings.NewReader(stdin), nil, command...)
	return err
}

// output runs a program of the machine and returns its output; an error has its
// standard error. env extends the environment.
func output(ctx context.Context, stdin io.Reader, env []string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = stdin
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out.String(), nil
}

// waitReady returns when kubelet has reported the node Ready since its boot, and the taint that
// keeps pods away until then is removed. It fails when ctx ends, with its cause.
func (n *Node) waitReady(ctx context.Context, boot string) error {
	last := "the Node does not exist"
	_, err := await.Object(ctx, n.cluster.Client().CoreV1().Nodes(), n.Name, func(node *corev1.Node) bool {
		last = fmt.Sprintf("conditions %v, taints %v", node.Status.Conditions, node.Spec.Taints)
		return cluster.Schedulable(node) && node.Status.NodeInfo.BootID == boot
	})
	if err != nil {
		return fmt.Errorf("wait until node %s is Ready: %w; last seen: %s", n.Name, err, last)
	}
	return nil
}

// waitNotified returns when the process that start starts has reported that it is ready, as a
// service does to systemd. It fails when the process ends or ctx does.
func (n *Node) waitNotified(ctx context.Context, start func() (*cluster.Process, error)) error {
	folder, err := os.Open(filepath.Join(n.root(), filepath.Dir(layout.NotifySocket)))
	if err != nil {
		return err
	}
	defer folder.Close()
	// A socket's address is short; a folder's path may be long.
	path := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(layout.NotifySocket))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	p, err := start()
	if err != nil {
		return err
	}
	running, done := p.WhileRunning(ctx)
	defer done()
	defer context.AfterFunc(running, func() { _ = conn.Close() })()
	buffer := make([]byte, 4096)
	for {
		size, err := conn.Read(buffer)
		if err != nil {
			return fmt.Errorf("wait until %s is ready: %w", p.Name(), cmp.Or(context.Cause(running), err))
		}
		if slices.Contains(strings.Fields(string(buffer[:size])), "READY=1") {
			return nil
		}
	}
}
