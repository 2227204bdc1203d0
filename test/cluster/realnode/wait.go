// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	nodeutil "k8s.io/component-helpers/node/util"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode/layout"
)

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
