// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package localprovisioner is the node agent: it publishes a node's local disks as
// PersistentVolumes, and cleans them when they are given back.
//
// A path below a discovery directory is a slot. Whatever happens to a slot (its disk
// comes or goes, its volume changes, a clean ends, the configuration is another one)
// puts its path into a queue. A worker takes it out, gathers what is known (gather.go),
// has packages discovery or reclaim decide, and does the one thing that was decided
// (create.go, change.go, clean.go). Then the slot is decided about again, until there
// is nothing to do.
//
// Decisions rest on what the informer shows, which may be behind. A slot is left alone
// until the informer shows the agent's own writes (expect.go), and before anything is
// destroyed the API server itself is asked.
//
// The order of writes is what keeps data safe: a record says Published before the
// volume exists, Cleaning before the first byte is changed, Clean after the last, and
// only then the volume's finalizer goes. The agent may be killed between any two.
package provisioner
