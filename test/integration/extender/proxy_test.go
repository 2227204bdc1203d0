// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// proxy is the scheduler's Service: it connects to the next
// replica, or to the next one that is ready.
type proxy struct {
	port     int
	onlyIf   func(*replica) bool
	listener net.Listener
	targets  []*replica
	next     int // of the targets
	running  sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]struct{} // nil once stopped
}

func newProxy(targets []*replica, ready bool) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{port: l.Addr().(*net.TCPAddr).Port, listener: l, targets: targets, open: map[net.Conn]struct{}{}}
	p.onlyIf = func(r *replica) bool {
		if !ready {
			return true
		}
		status, _ := r.get(context.Background(), "/readyz")
		return status == http.StatusOK
	}
	p.running.Go(p.accept)
	return p, nil
}

func (p *proxy) accept() {
	for {
		from, err := p.listener.Accept()
		if err != nil {
			return
		}
		to, err := p.dial()
		if err != nil {
			_ = from.Close()
			continue
		}
		if !p.track(from, to) {
			return
		}
		p.running.Go(func() { p.copy(from, to) })
		p.running.Go(func() { p.copy(to, from) })
	}
}

// dial connects to the next usable replica.
func (p *proxy) dial() (net.Conn, error) {
	for range p.targets {
		target := p.targets[p.next%len(p.targets)]
		p.next++
		if p.onlyIf(target) {
			return net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", target.port))
		}
	}
	return nil, errors.New("no replica is ready")
}

func (p *proxy) track(connections ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		if p.open == nil {
			_ = c.Close()
			continue
		}
		p.open[c] = struct{}{}
	}
	return p.open != nil
}

func (p *proxy) copy(to, from net.Conn) {
	_, _ = io.Copy(to, from) // ends with either side
	_ = to.Close()
	_ = from.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, to)
	delete(p.open, from)
}

// cut closes all connections, so that the next ones are distributed again.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

func (p *proxy) stop() {
	_ = p.listener.Close()
	p.cut()
	p.mu.Lock()
	p.open = nil
	p.mu.Unlock()
	p.running.Wait()
}
