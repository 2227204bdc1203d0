// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

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
