// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeloss releases claims whose volumes are lost with their nodes, where users
// enabled that, and removes the volumes of nodes that are gone; see docs/design/node-loss.md.
//
// Events of a volume, its node, its claim or its node's report enqueue the volume's name. The
// worker reads the facts from the informers (facts.go), package rules decides, the worker
// confirms the decision with the API server (confirm.go) and takes one action (actions.go).
// Each write enqueues the volume again, until nothing is left to do.
package nodeloss
