// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provisioner is the local provisioner: it publishes a node's local disks as
// PersistentVolumes, and cleans them when the volumes are released.
//
// A path below a discovery directory is a slot. Every event of a slot (its disk is attached
// or removed, its volume changes, a clean ends, the configuration changes) enqueues its path.
// A worker gathers the state of the path (gather.go), decides with packages discovery and
// reclaim, answers the questions of the decision (questions.go), and performs one action
// (publish.go, pv_writes.go, fence.go, clean.go, proofs.go). Then it decides again, until
// there is nothing to do: Provisioner.process.
//
// The types that share the work: scanner scans the discovery directories; pathTable has the
// state of every path; pvCache is the informer of the node's volumes; cleans and proofs run
// what takes long; statusReporter writes the node's report, events and metrics.
//
// Decisions are based on the informer, which may lag. A path is not decided on until the
// informer shows the provisioner's own writes (expectation.go), and before data is destroyed
// the API server is asked.
//
// The order of writes protects data: a record is Published before the volume exists, Cleaning
// before the first byte is changed, and Clean after the last; only then is the volume's
// finalizer removed. The provisioner may be killed between any two writes.
package provisioner
