// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"stowage.dev/stowage/pkg/localdisk/migrate"
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

func newAdoptCommand() *cobra.Command {
	o := &adoptOptions{}
	cmd := newTool("adopt --config FILE [--node NAME ...] [--confirm]", "Take over the volumes of sig-storage-local-static-provisioner", adoptDescription, clientset, o.run)
	flags := cmd.Flags()
	flags.StringVar(&o.config, "config", "", "the provisioner's configuration: a ConfigMap in a file, or a folder with a file for each key")
	flags.StringSliceVar(&o.nodes, "node", nil, "adopt the volumes of this node only; may be given more than once")
	flags.BoolVar(&o.confirm, "confirm", false, "adopt; without it, list only")
	flags.BoolVar(&o.whileRunning, "while-running", false, "adopt also on nodes where a pod of the former provisioner runs, which must not serve the classes of the configuration")
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
	if err := printCandidates(cmd.OutOrStdout(), found.Candidates); err != nil {
		return err
	}
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
	adopted, err := eachVolume(cmd, take, func(ctx context.Context, c *migrate.Candidate) (string, error) {
		return c.Volume, migrate.Adopt(ctx, client, c)
	})
	fmt.Fprintf(cmd.OutOrStdout(), "Adopted %d.\n", adopted)
	if err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d volumes of the former provisioner were not adopted: resolve the reasons in the table, then run this again", left)
	}
	return nil
}

func printCandidates(w io.Writer, all []migrate.Candidate) error {
	rows := [][]string{{"VOLUME", "NODE", "CLASS", "PATH", "PHASE", "RESULT"}}
	for _, c := range all {
		result := string(c.Verdict)
		if c.Why != "" {
			result += ": " + c.Why
		}
		rows = append(rows, []string{c.Volume, c.Node, c.Class, c.Path, string(c.Phase), result})
	}
	return printTable(w, rows)
}

// workers is how many volumes are written at a time: with more, the limit is --kube-api-qps, not
// the latency of the API server.
const workers = 16

// eachVolume calls do for each volume, for several at a time, prints the errors in the order of
// the volumes, and returns the number of successes.
func eachVolume[T any](cmd *cobra.Command, all []T, do func(context.Context, *T) (volume string, err error)) (int, error) {
	type outcome struct {
		tried  bool
		volume string
		err    error
	}
	outcomes := make([]outcome, len(all))
	workqueue.ParallelizeUntil(cmd.Context(), workers, len(all), func(i int) {
		volume, err := do(cmd.Context(), &all[i])
		outcomes[i] = outcome{true, volume, err}
	})
	done, changed, failed := 0, 0, 0
	for _, o := range outcomes {
		switch {
		case !o.tried, o.err != nil && cmd.Context().Err() != nil && errors.Is(o.err, cmd.Context().Err()):
		case errors.Is(o.err, migrate.ErrChanged):
			changed++
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", o.volume, migrate.ErrChanged)
		case o.err != nil:
			failed++
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", o.volume, o.err)
		default:
			done++
		}
	}
	switch {
	case cmd.Context().Err() != nil:
		return done, fmt.Errorf("interrupted after %d of %d volumes: run this again", done, len(all))
	case failed > 0:
		return done, fmt.Errorf("%d of %d volumes could not be written, for the reasons above: run this again", failed+changed, len(all))
	case changed > 0:
		return done, fmt.Errorf("%d of %d volumes were changed by others at the same time: run this again", changed, len(all))
	}
	return done, nil
}

// printTable aligns rows of equal length. Empty cells are printed as a hyphen.
func printTable(w io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = cell; cell == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}
