// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"bytes"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"
	nodeutil "k8s.io/component-helpers/node/util"

	"stowage.dev/stowage/test/cluster"
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

// Path returns this machine's path of a node's absolute path below /var, /mnt, /opt,
// /srv or /home. File systems that are mounted in the node are not visible there: see
// Node.Run.
func (n *Node) Path(path string) string { return filepath.Join(n.root(), path) }

// path is in the node's own folder.
func (n *Node) path(elements ...string) string {
	return filepath.Join(append([]string{n.cluster.Folder(), "nodes", n.Name}, elements...)...)
}

func (n *Node) root() string { return n.path("root") }

// Running reports whether the node runs.
func (n *Node) Running() bool { return n.pid() != 0 }

// pid is that of the node's process 1, 0 if it does not run.
func (n *Node) pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.init == nil {
		return 0
	}
	select {
	case <-n.init.Done():
		return 0
	default:
		return n.init.PID()
	}
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
	errs = append(errs, n.removeGroups())
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

// WaitNotReady returns when the node's Ready condition is not True.
func (n *Node) WaitNotReady(ctx context.Context) error {
	return n.wait(ctx, "not Ready", func(node *corev1.Node) bool {
		condition := ready(node)
		return condition == nil || condition.Status != corev1.ConditionTrue
	})
}

// waitReady returns when kubelet has reported the node Ready since its boot, and the taint that
// keeps pods away until then is removed.
func (n *Node) waitReady(ctx context.Context, boot string) error {
	return n.wait(ctx, "Ready", func(node *corev1.Node) bool {
		return cluster.Schedulable(node) && node.Status.NodeInfo.BootID == boot
	})
}

// wait watches the Node object until done returns true. It fails when ctx ends, with its cause.
func (n *Node) wait(ctx context.Context, what string, done func(*corev1.Node) bool) error {
	lw := cache.NewListWatchFromClient(n.cluster.Client().CoreV1().RESTClient(), "nodes", metav1.NamespaceAll,
		fields.OneTermEqualSelector(metav1.ObjectNameField, n.Name))
	last := "the Node does not exist"
	err := cluster.Until(ctx, lw, &corev1.Node{}, func(o runtime.Object) bool {
		node, ok := o.(*corev1.Node)
		if !ok {
			return false
		}
		last = fmt.Sprintf("condition %+v, taints %v", ready(node), node.Spec.Taints)
		return done(node)
	})
	if err != nil {
		return fmt.Errorf("wait until node %s is %s: %w; last seen: %s", n.Name, what, err, last)
	}
	return nil
}

// ready returns the node's condition Ready, nil if it has none.
func ready(node *corev1.Node) *corev1.NodeCondition {
	_, condition := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return condition
}

// notifier receives from a node's services that they are ready, as systemd does.
type notifier struct{ conn *net.UnixConn }

func (n *Node) listen() (*notifier, error) {
	folder, err := os.Open(filepath.Join(n.root(), filepath.Dir(layout.NotifySocket)))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	// A socket's address is short; a folder's path may be long.
	path := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(layout.NotifySocket))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	return &notifier{conn}, nil
}

// wait returns when a process has reported that it is ready. It fails when the process ends or ctx
// does.
func (l *notifier) wait(ctx context.Context, p *cluster.Process) error {
	running, done := p.WhileRunning(ctx)
	defer done()
	stop := context.AfterFunc(running, l.close)
	defer stop()
	err := l.read()
	if cause := context.Cause(running); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("wait until %s is ready: %w", p.Name(), err)
	}
	return nil
}

func (l *notifier) read() error {
	buffer := make([]byte, 4096)
	for {
		n, err := l.conn.Read(buffer)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(buffer[:n])) {
			if strings.TrimSpace(line) == "READY=1" {
				return nil
			}
		}
	}
}

func (l *notifier) close() { _ = l.conn.Close() }
