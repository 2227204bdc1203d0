// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stowage-extender serves kube-scheduler's extender protocol with the
// scheduling cache of stowage-scheduler, for clusters that keep the stock kube-scheduler.
package main

import (
	"os"

	"stowage.dev/stowage/cmd/extender/app"
	"stowage.dev/stowage/pkg/server/command"
)

func main() { os.Exit(command.Main(app.NewCommand())) }
