// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stowage-extender answers kube-scheduler's extender protocol: the engine of
// stowage-scheduler, for clusters that keep the stock kube-scheduler.
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

	"stowage.dev/stowage/cmd/extender/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	command := app.NewCommand()
	command.SetContext(ctx)
	code := cli.Run(command)
	stop()
	os.Exit(code)
}
