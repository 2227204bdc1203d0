// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"stowage.dev/stowage/test/cluster/internal/supervise"
)

// run is how to start a process of the cluster.
type run struct {
	name       string
	binary     string
	args       []string
	env        []string      // the whole environment
	port       *reservedPort // nil: serves no HTTPS
	kubeconfig string
	base       endpoint // without a client: that of port
	healthPath string   // empty: /readyz
	namespaces uintptr
	beside     int
}

// run starts a process and watches over its end.
func (c *Cluster) run(r run) (*Process, error) {
	p := &Process{name: r.name, logFile: c.folder.log(r.name), kubeconfig: r.kubeconfig, base: r.base, healthPath: cmp.Or(r.healthPath, "/readyz")}
	if r.port != nil {
		p.port = r.port.number
		p.base = endpoint{client: c.http, url: r.port.url()}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, fmt.Errorf("start %s: the cluster was stopped", r.name)
	}
	inner, err := c.supervisor.Start(supervise.Spec{
		Path: r.binary, Args: r.args, Env: r.env, Dir: string(c.folder), Log: p.logFile, Namespaces: r.namespaces, Beside: r.beside,
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.name, err)
	}
	p.inner = inner
	c.watchers.Go(func() { c.watch(p) })
	return p, nil
}

// watch reports the process's end unless it was expected.
func (c *Cluster) watch(p *Process) {
	<-p.Done()
	c.mu.Lock()
	stopped := c.stopped
	c.mu.Unlock()
	if stopped {
		return
	}
	if err := p.Err(); err != nil {
		select {
		case c.failed <- err:
		default: // not the first
		}
	}
}

// reservePort reserves a port of 127.0.0.1 until the cluster ends.
func (c *Cluster) reservePort() (*reservedPort, error) { return c.reservePortOf(loopback) }

func (c *Cluster) reservePortOf(address string) (*reservedPort, error) {
	p, err := reservePort(address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		p.release()
		return nil, errors.New("reserve a port: the cluster was stopped")
	}
	c.ports = append(c.ports, p)
	return p, nil
}

// stockEnv is the environment of stock components. They take settings from it
// (etcd reads each of its flags there), so they get little of the caller's.
func stockEnv(extra []string) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return slices.Concat(env, extra)
}
