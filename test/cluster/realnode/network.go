// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// network joins the machine and its nodes. Its bridge is in a separate network namespace, which
// a process holds: when that process ends, the kernel removes the bridge and all its links,
// also after a kill.
type network struct {
	slot slot
	pid  int // the process that holds the bridge's namespace
}

// newNetwork takes the first free slot and makes its network in the network namespace of a
// process.
func newNetwork(ctx context.Context, pid int) (*network, error) {
	for s := range slot(slots) {
		// The device that leads from the machine to the nodes. Two clusters cannot make the same.
		err := run(ctx, "", "ip", "link", "add", s.device(), "type", "veth", "peer", "name", "machine", "netns", strconv.Itoa(pid))
		if err == nil {
			n := &network{slot: s, pid: pid}
			err = n.open(ctx)
			return n, err
		}
		if !strings.Contains(err.Error(), "File exists") {
			return nil, fmt.Errorf("make the nodes' network: %w", err)
		}
	}
	return nil, fmt.Errorf("make the nodes' network: all %d are taken", slots)
}

// open connects the device to a bridge at its other end.
func (n *network) open(ctx context.Context) error {
	s := n.slot
	err := batch(ctx, nil, s.routes(0, "address add "+s.machine()+"/24 dev "+s.device(), "link set "+s.device()+" up")...)
	if err != nil {
		return err
	}
	return batch(ctx, inNetwork(n.pid),
		"link set lo up", "link add bridge type bridge", "link set bridge up",
		"link set machine master bridge", "link set machine up")
}

// plug joins a node to the network. The port has a name that no node of this network had before:
// the kernel removes the port of a killed node with a delay.
func (n *network) plug(ctx context.Context, node *Node, pid int, port string) error {
	s, i := n.slot, node.index
	err := batch(ctx, inNetwork(n.pid),
		fmt.Sprintf("link add %s type veth peer name eth0 address %s netns %d", port, s.hardware(i), pid),
		"link set "+port+" master bridge", "link set "+port+" up")
	if err != nil {
		return err
	}
	return batch(ctx, inNetwork(pid), s.routes(i,
		"link set lo up", "address add "+s.node(i)+"/24 dev eth0", "link set eth0 up", "route add default via "+s.machine())...)
}

// inNetwork begins a command that runs in the network namespace of a process.
func inNetwork(pid int) []string { return []string{"nsenter", "--target", strconv.Itoa(pid), "--net"} }

// batch runs lines as commands of iproute2, in order.
func batch(ctx context.Context, prefix []string, lines ...string) error {
	return run(ctx, strings.Join(lines, "\n")+"\n", append(prefix, "ip", "-batch", "-")...)
}

const (
	// slots is how many clusters of real nodes may run on a machine at a time.
	slots = 32
	// maxNodes is how many nodes a cluster may have.
	maxNodes = 15
)

// slot is a cluster's share of the addresses: 16 networks of 256 addresses out of 198.18.0.0/15,
// which is reserved for tests (RFC 2544) and not used by real networks. The first is the
// network that machine and nodes share, each other one has the pods of one node.
type slot int

func (s slot) octets(network, host int) string {
	n := int(s)*16 + network
	return fmt.Sprintf("198.%d.%d.%d", 18+n/256, n%256, host)
}

// device is the name of the machine's network device that leads to the nodes.
func (s slot) device() string { return fmt.Sprintf("stowage%d", int(s)) }

// machine is the address of the machine, and so of the API server.
func (s slot) machine() string { return s.octets(0, 1) }

// node is the address of a node, by its index from 1 to maxNodes.
func (s slot) node(index int) string { return s.octets(0, index+1) }

// pods is the network of the pods of a node.
func (s slot) pods(index int) string { return s.octets(index, 0) + "/24" }

// routes appends the routes to the pods of all nodes but one.
func (s slot) routes(but int, lines ...string) []string {
	for i := 1; i <= maxNodes; i++ {
		if i != but {
			lines = append(lines, "route add "+s.pods(i)+" via "+s.node(i))
		}
	}
	return lines
}

// hardware is a node's MAC address. It does not change with restarts: neighbors may have cached it.
func (s slot) hardware(index int) string { return fmt.Sprintf("02:73:74:00:%02x:%02x", int(s), index) }
