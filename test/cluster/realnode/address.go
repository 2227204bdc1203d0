// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import "fmt"

const (
	// slots is how many clusters of real nodes a machine has room for at a time.
	slots = 32
	// maxNodes is how many nodes a cluster has room for.
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

// hardware is a node's MAC address. It outlives the node, whose neighbors may remember it.
func (s slot) hardware(index int) string { return fmt.Sprintf("02:73:74:00:%02x:%02x", int(s), index) }
