// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the stowage-controller command: configuration and flags,
// clients and informers, leader election, the loops that do the work.
package app

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"stowage.dev/stowage/pkg/apis/controller"
	"stowage.dev/stowage/pkg/apis/controller/v1alpha1"
)

const (
	componentName = "stowage-controller"

	longDescription = `stowage-controller does what one process does for the whole cluster: it releases claims
whose volumes are lost with their nodes, where that is asked for, and tells the
admission policies of the node agents which hostname a node has.

See docs/controller.md. Its configuration is in docs/controller-configuration.md.`
)

// options are the flags.
type options struct {
	config      string
	kubeconfig  string
	logs        *logsapi.LoggingConfiguration
	featureGate featuregate.MutableVersionedFeatureGate
}

// NewCommand returns the stowage-controller command. It works until the command's
// context is done.
func NewCommand() *cobra.Command {
	o := &options{logs: logsapi.NewLoggingConfiguration(), featureGate: featuregate.NewVersionedFeatureGate(apiversion.MustParse("1.37"))}
	cmd := &cobra.Command{
		Use:          componentName,
		Short:        "Release the claims of lost nodes",
		Long:         longDescription,
		Args:         cobra.NoArgs,
		Version:      stowageVersion(),
		SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			logs.InitLogs()
			if err := logsapi.AddFeatureGates(o.featureGate); err != nil {
				return err
			}
			return logsapi.ValidateAndApply(o.logs, o.featureGate)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := o.settings()
			if err != nil {
				return err
			}
			connection, err := connect(settings)
			if err != nil {
				return err
			}
			return run(cmd.Context(), settings, connection)
		},
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.config, "config", "", "file with a ControllerConfiguration (controller.config.stowage.dev/v1alpha1); without one the defaults hold")
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file, where the configuration names none; without one the pod's service account is used")
	logsapi.AddFlags(o.logs, flags)
	cmd.AddCommand(newValidateCommand())
	return cmd
}

// settings reads the configuration file.
func (o *options) settings() (*controller.ControllerConfiguration, error) {
	if o.config == "" {
		settings, err := v1alpha1.Default()
		if err == nil {
			settings.ClientConnection.Kubeconfig = o.kubeconfig
		}
		return settings, err
	}
	settings, err := readSettings(o.config)
	if err == nil && settings.ClientConnection.Kubeconfig == "" {
		settings.ClientConnection.Kubeconfig = o.kubeconfig
	}
	return settings, err
}

func readSettings(path string) (*controller.ControllerConfiguration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	settings, err := v1alpha1.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return settings, nil
}

// connect is the configuration of clients of the API server.
func connect(settings *controller.ControllerConfiguration) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if file := settings.ClientConnection.Kubeconfig; file != "" {
		config, err = clientcmd.BuildConfigFromFlags("", file)
	} else if config, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
		err = errors.New("this is not a pod: say which cluster with --kubeconfig")
	}
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = float32(settings.ClientConnection.QPS), int(settings.ClientConnection.Burst)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.UserAgent = componentName + "/" + stowageVersion()
	return config, nil
}

func newValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration file",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := readSettings(args[0])
			if err != nil {
				return err
			}
			loss := settings.NodeLoss
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid, node loss %s after %s\n", args[0], loss.Policy, loss.Delay.Duration)
			return err
		},
	}
}
