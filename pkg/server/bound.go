// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// sendBuffer limits what the kernel buffers for a client that does not read, in bytes.
const sendBuffer = 64 << 10

// boundedListener has at most limit counted connections open. For one more it closes the
// oldest connection of the address with the most connections. netutil.LimitListener would make
// the new connection wait instead, so clients could lock out the probes of kubelet.
type boundedListener struct {
	net.Listener
	limit int
	// writeTimeout is set before each write; zero: only the server's own timeout.
	writeTimeout time.Duration

	mu   sync.Mutex
	open list.List // of *boundedConn, by the time of Accept
}

func newBoundedListener(listener net.Listener, limit int) *boundedListener {
	return &boundedListener{Listener: listener, limit: limit}
}

// BoundConnections limits the connections of a listener for probes and scrapes like Serve, for
// a server outside of this package without a write deadline: the connection of a client that
// does not read in time is closed.
func BoundConnections(listener net.Listener) net.Listener {
	bounded := newBoundedListener(listener, maxConnections)
	bounded.writeTimeout = requestTimeout
	return bounded
}

func (l *boundedListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // a larger buffer is no failure
	}
	conn := &boundedConn{Conn: accepted, listener: l, client: accepted.RemoteAddr().String()}
	if host, _, err := net.SplitHostPort(conn.client); err == nil {
		conn.client = host
	}
	if excess := l.add(conn); excess != nil {
		excess.discard()
		_ = excess.Close() // its client has no claim to an answer
	}
	return conn, nil
}

// add returns the connection that has to be closed; nil if none has.
func (l *boundedListener) add(conn *boundedConn) *boundedConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn.counted = l.open.PushBack(conn)
	if l.open.Len() <= l.limit {
		return nil
	}
	connections := map[string]int{}
	for e := l.open.Front(); e != nil; e = e.Next() {
		connections[e.Value.(*boundedConn).client]++
	}
	var excess *boundedConn
	for e := l.open.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*boundedConn); excess == nil || connections[c.client] > connections[excess.client] {
			excess = c
		}
	}
	return excess
}

// boundedConn is a connection that counts until it is closed or released.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	client   string        // the address of its other end, without the port
	counted  *list.Element // nil: does not count; guarded by listener.mu
}

// release stops counting the connection, which stays open.
func (c *boundedConn) release() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.counted != nil {
		c.listener.open.Remove(c.counted)
		c.counted = nil
	}
}

func (c *boundedConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// Write discards the response after its deadline: the kernel would keep it for minutes after
// Close.
func (c *boundedConn) Write(b []byte) (int, error) {
	if timeout := c.listener.writeTimeout; timeout > 0 {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.discard()
	}
	return n, err
}

// discard makes Close drop what the client has not read.
func (c *boundedConn) discard() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the connection may be closed already
	}
}

// releaseActive is for http.Server.ConnState: a TLS connection counts until its handshake,
// which authenticates the client, is done.
func releaseActive(conn net.Conn, state http.ConnState) {
	if state != http.StateActive {
		return
	}
	if overTLS, ok := conn.(*tls.Conn); ok {
		if bounded, ok := overTLS.NetConn().(*boundedConn); ok {
			bounded.release()
		}
	}
}
