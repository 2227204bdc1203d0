// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/migrate"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/server/command"
)

// apiFlags configure the client of the API server.
type apiFlags struct {
	kubeconfig string
	qps        float32
	burst      int
}

// Limits of a tool, which runs once for the whole cluster: patching and deleting 10,000 volumes
// takes 100 s. A provisioner, which runs on every node, has less.
const (
	toolQPS   = 200
	toolBurst = 400
)

func (f *apiFlags) add(flags *pflag.FlagSet, qps float32, burst int) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file; without one the pod's service account is used")
	flags.Float32Var(&f.qps, "kube-api-qps", qps, "requests a second to the API server")
	flags.IntVar(&f.burst, "kube-api-burst", burst, "requests at once to the API server")
}

// client returns the configuration of clients of the API server.
func (f *apiFlags) client() (*rest.Config, error) {
	config, err := command.Cluster(componentName, f.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = f.qps, f.burst
	config.Wrap(metrics.CountRequests)
	return config, nil
}

// newTool returns a command without arguments that calls run with a client of the API server.
func newTool[C any](use, short, long string, connect func(*rest.Config) (C, error), run func(*cobra.Command, C) error) *cobra.Command {
	var api apiFlags
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		config, err := api.client()
		if err != nil {
			return err
		}
		client, err := connect(config)
		if err != nil {
			return fmt.Errorf("make a client: %w", err)
		}
		return run(cmd, client)
	}}
	api.add(cmd.Flags(), toolQPS, toolBurst)
	return cmd
}

func clientset(config *rest.Config) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(config)
}

func reports(config *rest.Config) (migrate.ReportWriter, error) { return diskreports.NewClient(config) }
