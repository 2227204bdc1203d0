// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"math"
	"net/url"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/localdisk/migrate"
	"stowage.dev/stowage/pkg/localdisk/migrate/tool"
)

// newTool makes cmd a command without arguments that calls run with a client of the API server. Tools write
// if --confirm is given, so they do not work on files.
func newTool[C any](c *cluster, cmd *cobra.Command, connect func(*rest.Config) (C, error), run func(*cobra.Command, C) error) *cobra.Command {
	qps, burst := float32(tool.QPS), tool.Burst
	cmd.Flags().Float32Var(&qps, "kube-api-qps", qps, "requests a second to the API server")
	cmd.Flags().IntVar(&burst, "kube-api-burst", burst, "requests at once to the API server")
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if c.from != "" {
			return fmt.Errorf("--from: %s changes a cluster, and cannot change files: omit --from", cmd.Name())
		}
		config, err := c.config()
		if err != nil {
			return err
		}
		config.QPS, config.Burst = qps, burst
		client, err := connect(config)
		if err != nil {
			return fmt.Errorf("make a client: %w", err)
		}
		err = run(cmd, client)
		if _, failed := errors.AsType[*url.Error](err); failed && cmd.Context().Err() == nil {
			return fmt.Errorf("the API server at %s does not answer; check --kubeconfig, --context and --server: %w", config.Host, err)
		}
		return err
	}
	return cmd
}

func clientset(config *rest.Config) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(config)
}

func reports(config *rest.Config) (migrate.ReportWriter, error) { return diskreports.NewClient(config) }

// toolOutput prints tables with one line for each object, however wide: names and paths leave no width for
// the result in a terminal, and lists of many volumes are searched.
func toolOutput(cmd *cobra.Command) tool.Output {
	p := newPrinter(cmd)
	p.width = math.MaxInt
	return tool.Output{Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), Table: p.table}
}
