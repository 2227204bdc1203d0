// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command stowage-scheduler is kube-scheduler with Stowage's VolumeTopology plugin
// instead of VolumeBinding.
package main

import (
	"os"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"stowage.dev/stowage/cmd/scheduler/app"
	"stowage.dev/stowage/pkg/scheduling/volumetopology"
)

func main() {
	command := app.NewCommand(frameworkruntime.Registry{
		volumetopology.Name: volumetopology.New,
	})
	// SIGTERM or SIGINT stops the scheduler; a second signal terminates the process at
	// once.
	command.SetContext(server.SetupSignalContext())
	os.Exit(cli.Run(command))
}
