// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioner is the local provisioner: it publishes a node's local disks as
// PersistentVolumes, and cleans them when the volumes are released.
//
// A path below a discovery directory is a slot. Every event of a slot (its disk is attached
// or removed, its volume changes, a clean ends, the configuration changes) enqueues its path.
// Provisioner.process, called by a worker, reads from top to bottom: it gathers the state of the
// path and decides with package decide (gather.go), answers the questions of the decision
// (questions.go, other_nodes.go), performs one action (pv_writes.go, publish.go, fence.go), and
// enqueues the path again until there is nothing to do (recheck.go).
//
// Package scan scans the discovery directories, package clean runs what takes long, package
// status writes the report, events and metrics. pathTable has the state of every path, pvCache is
// the informer of the node's volumes.
//
// Decisions are based on the informer, which may lag. A path is not decided on until the
// informer shows the provisioner's own writes (paths.go), and before data is destroyed the API
// server is asked.
//
// The order of writes protects data: a record is Published before the volume exists, Cleaning
// before the first byte is changed, and Clean after the last; only then is the volume's
// finalizer removed. The provisioner may be killed between any two writes.
package provisioner
