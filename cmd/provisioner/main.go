// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stowage-provisioner publishes a node's local disks as PersistentVolumes, and cleans
// them when the volumes are released.
package main

import (
	"os"

	"stowage.dev/stowage/cmd/provisioner/app"
	"stowage.dev/stowage/pkg/server/command"
)

func main() { os.Exit(command.Main(app.NewCommand())) }
