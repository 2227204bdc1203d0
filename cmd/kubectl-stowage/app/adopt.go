// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/migrate"
	"stowage.dev/stowage/pkg/localdisk/migrate/tool"
)

const adoptDescription = `adopt takes over the volumes of sig-storage-local-static-provisioner, with their
claims and data: each gets the labels, annotations and finalizer by which the provisioner of
its node manages it. It needs the rights of an administrator, and is run once, after the
former provisioner was removed and before the new one is installed.

Without --confirm it shows what it would do, and changes nothing. It can be interrupted
and run again at any time. See docs/migrating-from-local-static-provisioner.md.`

// adoptOptions are the flags of adopt.
type adoptOptions struct {
	config       string
	nodes        []string
	confirm      bool
	whileRunning bool
}

func newAdoptCommand(c *cluster) *cobra.Command {
	o := &adoptOptions{}
	cmd := newTool(c, &cobra.Command{
		Use:   "adopt --config FILE [--node NAME ...] [--confirm]",
		Short: "Take over the volumes of sig-storage-local-static-provisioner",
		Long:  adoptDescription,
	}, clientset, o.run)
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "the provisioner's configuration: a ConfigMap in a file, or a folder with a file for each key")
	flags.StringSliceVar(&o.nodes, "node", nil, "adopt the volumes of this node only; may be given more than once")
	flags.BoolVar(&o.confirm, "confirm", false, "adopt; without it, list only")
	flags.BoolVar(&o.whileRunning, "while-running", false, "adopt also on nodes where a pod of the former provisioner runs, which must not serve the classes of the configuration")
	c.completeFlag(cmd, "node", snapshot.KindOf[*corev1.Node]())
	_ = cmd.MarkFlagRequired("config") // fails for unknown flags only
	return cmd
}

func (o *adoptOptions) run(cmd *cobra.Command, client kubernetes.Interface) error {
	config, err := readConfig(o.config)
	if err != nil {
		return err
	}
	found, err := migrate.FindAdoptable(cmd.Context(), client, migrate.AdoptOptions{Config: config, Nodes: o.nodes, WhileRunning: o.whileRunning})
	if err != nil {
		return err
	}
	for _, warning := range found.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
	}
	if len(found.Candidates) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "There are no volumes to adopt.")
		return nil
	}
	toolOutput(cmd).Table(candidateTable(found.Candidates))
	var take []migrate.Candidate
	taken, left, strange := 0, 0, 0
	for _, c := range found.Candidates {
		switch {
		case c.Verdict == migrate.Take:
			take = append(take, c)
		case c.Verdict == migrate.Taken:
			taken++
		case c.Reference:
			left++
		default:
			strange++
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "\n%d to adopt, %d adopted already, %d left alone, %d of others.\n", len(take), taken, left, strange)
	if !o.confirm {
		fmt.Fprintln(cmd.OutOrStdout(), "Nothing was changed. To adopt, run this again with --confirm.")
		return nil
	}
	adopted, err := tool.Batch[migrate.Candidate]{All: take, What: "volumes", Write: func(ctx context.Context, c *migrate.Candidate) (string, error) {
		return c.Volume, migrate.Adopt(ctx, client, c)
	}}.Run(cmd.Context(), cmd.ErrOrStderr())
	fmt.Fprintf(cmd.OutOrStdout(), "Adopted %d.\n", adopted)
	if err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d volumes of the former provisioner were not adopted: resolve the reasons in the table, then run this again", left)
	}
	return nil
}

func candidateTable(all []migrate.Candidate) [][]string {
	rows := [][]string{{"VOLUME", "NODE", "CLASS", "PATH", "PHASE", "RESULT"}}
	for _, c := range all {
		result := string(c.Verdict)
		if c.Why != "" {
			result += ": " + c.Why
		}
		rows = append(rows, []string{c.Volume, c.Node, c.Class, c.Path, string(c.Phase), result})
	}
	return rows
}
