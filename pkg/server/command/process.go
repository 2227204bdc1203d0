// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"            // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/restclient" // client-go's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"    // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue"

	"stowage.dev/stowage/pkg/apis/component"
)

// Main runs a command until it returns; SIGTERM and SIGINT end its context. Main returns the
// exit code of the process.
func Main(cmd *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd.SetContext(ctx)
	return cli.Run(cmd)
}

// featuresOf is the version of Kubernetes whose logging features are enabled.
const featuresOf = "1.37"

// AddLogs adds the logging flags of Kubernetes' components to a command and its subcommands, and
// applies them before the command runs. A subcommand with a PersistentPreRunE must call this one.
func AddLogs(cmd *cobra.Command) {
	config, gate := logsapi.NewLoggingConfiguration(), featuregate.NewVersionedFeatureGate(apiversion.MustParse(featuresOf))
	logsapi.AddFlags(config, cmd.PersistentFlags())
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		logs.InitLogs()
		if err := logsapi.AddFeatureGates(gate); err != nil {
			return err
		}
		return logsapi.ValidateAndApply(config, gate)
	}
}

// connect returns the configuration of the clients of a component.
func connect(name string, asked component.ClientConnection) (*rest.Config, error) {
	config, err := Cluster(name, asked.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = float32(*asked.QPS), int(*asked.Burst)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config, nil
}

// Cluster returns the client configuration of a component for a kubeconfig; if it is empty, that of the pod's
// service account.
func Cluster(name, kubeconfig string) (*rest.Config, error) {
	build := rest.InClusterConfig
	if kubeconfig != "" {
		build = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", kubeconfig) }
	}
	config, err := build()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("this process does not run in a pod: use --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.UserAgent = name + "/" + Version()
	return config, nil
}

// version is set by the build:
//
//	go build -ldflags "-X stowage.dev/stowage/pkg/server/command.version=v0.1.0"
var version string

// Version is what the build set, else what the Go toolchain recorded
// ("go install stowage.dev/stowage/cmd/scheduler@v0.1.0", or the commit).
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
