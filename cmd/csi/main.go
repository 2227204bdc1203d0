// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stowage-csi is the CSI node service of all PavProvisioners on a node.
package main

import (
	"os"

	"stowage.dev/stowage/cmd/csi/app"
	"stowage.dev/stowage/pkg/server/command"
)

func main() { os.Exit(command.Main(app.NewCommand())) }
