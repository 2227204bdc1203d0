// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stowage-controller does what one process does for the whole cluster: it releases
// claims whose volumes are lost with their nodes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info

	"stowage.dev/stowage/cmd/controller/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := app.NewCommand()
	command.SetContext(ctx)
	os.Exit(cli.Run(command))
}
