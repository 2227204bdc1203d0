// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the stowage-extender command: configuration and flags,
// client and informers, leader election, serving.
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

	"stowage.dev/stowage/pkg/apis/extender"
	"stowage.dev/stowage/pkg/apis/extender/v1alpha1"
)

const (
	componentName = "stowage-extender"

	longDescription = `stowage-extender answers the extender protocol of kube-scheduler: it tells which
nodes have volumes for a pod, ranks them, and in mode Full binds volumes and pod.

It is for clusters that may configure kube-scheduler but not replace it; see
docs/extender.md. Its own configuration is in docs/extender-configuration.md.`
)

// options are the flags.
type options struct {
	config      string
	kubeconfig  string
	logs        *logsapi.LoggingConfiguration
	featureGate featuregate.MutableVersionedFeatureGate
}

// NewCommand returns the stowage-extender command. It serves until the command's
// context is done.
func NewCommand() *cobra.Command {
	o := &options{logs: logsapi.NewLoggingConfiguration(), featureGate: featuregate.NewVersionedFeatureGate(apiversion.MustParse("1.37"))}
	cmd := &cobra.Command{
		Use:          componentName,
		Short:        "Answer kube-scheduler's questions about volumes",
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
	flags.StringVar(&o.config, "config", "", "file with an ExtenderConfiguration (extender.config.stowage.dev/v1alpha1)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file, where the configuration names none; without one the pod's service account is used")
	logsapi.AddFlags(o.logs, flags)
	cmd.AddCommand(newValidateCommand())
	return cmd
}

// settings reads the configuration file.
func (o *options) settings() (*extender.ExtenderConfiguration, error) {
	if o.config == "" {
		return nil, errors.New("say how to run with --config: certificates have no default")
	}
	settings, err := readSettings(o.config)
	if err == nil && settings.ClientConnection.Kubeconfig == "" {
		settings.ClientConnection.Kubeconfig = o.kubeconfig
	}
	return settings, err
}

func readSettings(path string) (*extender.ExtenderConfiguration, error) {
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
func connect(settings *extender.ExtenderConfiguration) (*rest.Config, error) {
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
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid, mode %s\n", args[0], settings.Mode)
			return err
		},
	}
}
