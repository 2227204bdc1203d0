// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command nodeinit is process 1 of a real node: it is started in new namespaces, makes a root
// file system for them out of the machine's programs and the node's own folders, reports that it
// is ready, and then reaps orphaned processes until a signal ends it. Package realnode starts it.
//
//	nodeinit FILE    the file has the JSON of layout.Node
//	nodeinit         holds the namespaces that it was started in, as process 1 of a pod does
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"stowage.dev/stowage/test/cluster/realnode/layout"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	if len(os.Args) > 1 {
		if err := becomeNode(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	}
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap collects all children that have ended.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

func becomeNode(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var n layout.Node
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if err := enterRoot(n); err != nil {
		return err
	}
	if err := setKernel(n); err != nil {
		return err
	}
	return notifyReady(layout.NotifySocket)
}

// setKernel sets what belongs to the node's namespaces.
func setKernel(n layout.Node) error {
	if err := syscall.Sethostname([]byte(n.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("turn on forwarding: %w", err)
	}
	return nil
}

// notifyReady notifies the socket as a service notifies systemd when it is ready.
func notifyReady(socket string) error {
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("READY=1"))
	return err
}
