// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stowage-controller does what one process does for the whole cluster: it releases
// claims whose volumes are lost with their nodes, and makes cleaning Jobs.
package main

import (
	"os"

	"stowage.dev/stowage/cmd/controller/app"
	"stowage.dev/stowage/pkg/server/command"
)

func main() { os.Exit(command.Main(app.NewCommand())) }
