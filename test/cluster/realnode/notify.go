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
	"sync"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode/layout"
)

// notifier hears from a node's services when they are ready, as systemd would.
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
	ready := make(chan error, 1)
	var reading sync.WaitGroup
	reading.Go(func() { ready <- l.read() })
	var err error
	select {
	case err := <-ready:
		return err
	case <-p.Done():
		err = fmt.Errorf("%s ended before it was ready: %w", p.Name(), p.Err())
	case <-ctx.Done():
		err = fmt.Errorf("wait until %s is ready: %w", p.Name(), ctx.Err())
	}
	_ = l.conn.Close()
	reading.Wait()
	return err
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
