// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"stowage.dev/stowage/pkg/localdisk/migrate/tool"
)

const uninstallDescription = `uninstall is what the Job stowage-release runs (manifests/uninstall): it stops the provisioners,
removes their finalizer from all volumes, and deletes the volumes without a claim. Nothing is
cleaned, and volumes with the data of claims are left.

Without --confirm it lists the volumes and changes nothing. Administrators have
kubectl stowage release, which also releases the volumes of single nodes.`

// newUninstallCommand returns the only command of an administrator that is in the image: the Job has no
// kubectl plugin.
func newUninstallCommand() *cobra.Command {
	r := &tool.Release{StopProvisioners: true}
	r.All, r.Withdraw = true, true
	var api apiFlags
	cmd := &cobra.Command{
		Use:    "uninstall [--confirm]",
		Short:  "Stop the provisioners and release all volumes, as the Job that uninstalls",
		Long:   uninstallDescription,
		Args:   cobra.NoArgs,
		Hidden: true, // for Jobs, not for people
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := api.client()
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("make a client: %w", err)
			}
			return r.Run(cmd.Context(), client, logOutput(cmd))
		},
	}
	api.add(cmd.Flags(), tool.QPS, tool.Burst)
	cmd.Flags().StringVar(&r.Namespace, "namespace", "stowage-system", "namespace of the provisioners and of their cleaning Jobs")
	cmd.Flags().BoolVar(&r.Confirm, "confirm", false, "stop and release; without it, list only")
	return cmd
}

// logOutput prints to the log of a pod, which has lines of any length.
func logOutput(cmd *cobra.Command) tool.Output {
	out := cmd.OutOrStdout()
	return tool.Output{Out: out, Err: cmd.ErrOrStderr(), Table: func(rows [][]string) {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, row := range rows {
			cells := make([]string, len(row))
			for i, cell := range row {
				cells[i] = cmp.Or(cell, "-")
			}
			fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
		_ = table.Flush() // as other output: an error of standard output ends nothing
	}}
}
