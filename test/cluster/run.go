// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/test/cluster/internal/supervise"
)

// run is how to start a process of the cluster.
type run struct {
	name       string
	binary     string
	args       []string
	env        []string      // the whole environment
	port       *reservedPort // nil: serves no HTTPS
	base       endpoint      // without a client: that of port
	healthPath string        // empty: /readyz
	namespaces uintptr
	beside     int
}

// run starts a process and reports its unexpected end.
func (c *Cluster) run(r run) (*Process, error) {
	p := &Process{name: r.name, logFile: c.folder.log(r.name), base: r.base, healthPath: cmp.Or(r.healthPath, "/readyz")}
	if r.port != nil {
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
	p.Process = inner
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

// reservePort reserves a port of an address until the cluster ends.
func (c *Cluster) reservePort(address string) (*reservedPort, error) {
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

// ProcessOptions configures Cluster.StartProcess.
type ProcessOptions struct {
	// Name is what errors and the log file call it.
	Name string
	// Binary is the path of an executable.
	Binary string
	Args   []string
	// Env is added to a small part of the caller's environment, as NAME=value.
	Env []string
	// HealthURL is http:// or https:// and a host and port whose HealthPath shows an administrator
	// that the process works; empty: the process counts as healthy once it runs.
	HealthURL  string
	HealthPath string // empty: /healthz
	// Namespaces are flags of Linux's clone(2): the process gets new namespaces of
	// these kinds. The end of the first process of a PID namespace is the end of
	// all in it.
	Namespaces uintptr
	// Beside is the PID of a process whose PID namespace it joins; 0 for none.
	Beside int
}

// StartProcess runs a process that ends with the cluster, without
// waiting until it works.
func (c *Cluster) StartProcess(o ProcessOptions) (*Process, error) {
	r := run{
		name: fileName(o.Name), binary: o.Binary, args: o.Args, env: stockEnv(o.Env),
		healthPath: cmp.Or(o.HealthPath, "/healthz"), namespaces: o.Namespaces, beside: o.Beside,
	}
	if o.HealthURL != "" {
		r.base = endpoint{client: c.http, url: o.HealthURL}
	}
	return c.run(r)
}

// NewComponent makes a component that start runs, which may call StartProcess. It
// does not run yet.
func NewComponent(name string, start func() (*Process, error)) *Component {
	return &Component{name: name, start: start}
}

// Prune has a file, or a folder and those in it, removed when the cluster has
// ended, also when the process that started it is killed. Folders are meant to be
// control groups: files in them are not removed.
func (c *Cluster) Prune(path string) { c.supervisor.Prune(path) }

// SupervisorPID is the process that removes what remains of the cluster at its end.
func (c *Cluster) SupervisorPID() int { return c.supervisor.PID() }

// StartCommand runs any program as a part of the cluster: it ends with the cluster, and its
// unexpected end is reported like that of a component. name may be used again; args and env
// (NAME=value) are the program's; env extends the caller's environment. Its working folder is
// the cluster's.
func (c *Cluster) StartCommand(name, binary string, args, env []string) (*Process, error) {
	return c.run(run{name: c.numbered(name), binary: binary, args: args, env: append(os.Environ(), env...)})
}

// loopback is where all but some API servers listen.
const loopback = "127.0.0.1"

// reservedPort is a TCP port of an address of this machine that belongs to one component for as
// long as the reservation lasts, however often the component restarts.
//
// The reservation is a socket bound to the port that never listens, so it accepts no
// connections. It sets SO_REUSEPORT: only sockets that set it too can bind the port, and the
// kernel never assigns a shared port to a process that binds any free one.
type reservedPort struct {
	fd      int
	address string // IPv4
	number  int
}

func reservePort(address string) (*reservedPort, error) {
	syscall.ForkLock.RLock() // no child may inherit the socket
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	p := &reservedPort{fd: fd, address: address}
	if err := p.bind(); err != nil {
		p.release()
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return p, nil
}

func (p *reservedPort) bind() error {
	if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	ip, err := netip.ParseAddr(p.address)
	if err != nil {
		return err
	}
	if err := unix.Bind(p.fd, &unix.SockaddrInet4{Addr: ip.As4()}); err != nil {
		return err
	}
	name, err := unix.Getsockname(p.fd)
	if err != nil {
		return err
	}
	addr, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return fmt.Errorf("unexpected socket address %T", name)
	}
	p.number = addr.Port
	return nil
}

func (p *reservedPort) release() { _ = unix.Close(p.fd) }

// url of the HTTPS server on the port.
func (p *reservedPort) url() string {
	return "https://" + net.JoinHostPort(p.address, strconv.Itoa(p.number))
}
