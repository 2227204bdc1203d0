// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"k8s.io/klog/v2/ktesting"

	"stowage.dev/stowage/test/deadline"
)

// TestConnectionsAreBounded: of too many idle connections the oldest is closed.
func TestConnectionsAreBounded(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts := parse(t)
	var err error
	if opts.SecureServing.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	config, _, err := Setup(ctx, opts, (&recorder{}).registry())
	if err != nil {
		t.Fatal(err)
	}
	listener := config.SecureServing.Listener
	defer func() { _ = listener.Close() }()
	var oldest net.Conn
	for range 100 {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = accepted.Close() })
		if oldest == nil {
			oldest = conn
		}
	}
	if err := oldest.SetReadDeadline(time.Now().Add(deadline.Wait())); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(oldest); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest of 100 connections is still open")
	}
}
