// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeloss releases claims whose volumes are lost with their nodes, where that
// is asked for, and removes the volumes of nodes that are gone; docs/design/node-loss.md
// says how.
//
// Whatever happens to a volume of ours, to its node, its claim or its node's report
// puts its name into a queue. The worker gathers what is known (gather.go), has package
// loss decide, asks the API server whether it is still so (confirm.go), and does the
// one thing that was decided (act.go). Then the volume is decided about again, until
// there is nothing to do.
package nodeloss
