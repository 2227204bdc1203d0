// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/disk"
	"stowage.dev/stowage/pkg/localdisk/migrate"
	"stowage.dev/stowage/pkg/localdisk/migrate/tool"
)

const acknowledgeDescription = `acknowledge publishes disks that hold the data of volumes which are gone, with that data: disks of
another cluster (OtherCluster), of volumes that vanished (VolumeVanished), of volumes of policy Retain
(RetainedDirty), of volumes whose disk has no lasting identity (IdentityUnproven), and those that are
about to be cleaned (OrphanGracePeriod, OrphanCleanWaits). Disks with data that was never a volume's
(NotEmpty) are included only with --reason NotEmpty. It takes the rights of an administrator.

The next claim of a volume sees the data that is on its disk. Without --confirm the command lists the
disks and changes nothing.`

// acknowledgeOptions are the flags of acknowledge.
type acknowledgeOptions struct {
	migrate.KeptOptions
	all, confirm bool
}

func newAcknowledgeCommand(c *cluster) *cobra.Command {
	o := &acknowledgeOptions{}
	cmd := newTool(c, &cobra.Command{
		Use:   "acknowledge (--all | [--node NAME ...] [--class NAME ...]) [--reason REASON ...] [--confirm]",
		Short: "Publish disks with the data of volumes that are gone",
		Long:  acknowledgeDescription,
	}, reports, o.run)
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "acknowledge the disks of all nodes and classes")
	flags.StringSliceVar(&o.Nodes, "node", nil, "only disks of this node; may be given more than once")
	flags.StringSliceVar(&o.Classes, "class", nil, "only disks of this class; may be given more than once")
	flags.StringSliceVar(&o.Reasons, "reason", nil, "only disks with this reason in the node's LocalDiskReport; may be given more than once")
	flags.BoolVar(&o.confirm, "confirm", false, "acknowledge; without it, list only")
	cmd.MarkFlagsOneRequired("all", "node", "class")
	cmd.MarkFlagsMutuallyExclusive("all", "node")
	cmd.MarkFlagsMutuallyExclusive("all", "class")
	c.completeFlag(cmd, "node", snapshot.KindOf[*corev1.Node]())
	c.completeFlag(cmd, "class", snapshot.KindOf[*storagev1.StorageClass]())
	_ = cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(acknowledgeable(), cobra.ShellCompDirectiveNoFileComp)) // fails for unknown flags only
	return cmd
}

// acknowledgeable are the reasons that --reason takes.
func acknowledgeable() []string {
	var all []string
	for _, reason := range []disk.Reason{
		disk.OtherCluster, disk.VolumeVanished, disk.RetainedDirty, disk.OrphanGracePeriod, disk.OrphanCleanWaits, disk.IdentityUnproven, disk.NotEmpty,
	} {
		all = append(all, string(reason))
	}
	return all
}

func (o *acknowledgeOptions) run(cmd *cobra.Command, reports migrate.ReportWriter) error {
	for _, reason := range o.Reasons {
		if allowed := acknowledgeable(); !slices.Contains(allowed, reason) {
			return fmt.Errorf("--reason: must be one of %s, and is %q", strings.Join(allowed, ", "), reason)
		}
	}
	found, err := migrate.FindKept(cmd.Context(), reports, o.KeptOptions)
	if err != nil {
		return err
	}
	var kept []migrate.Kept
	disks, known := 0, 0
	for _, k := range found {
		known += k.Acknowledged
		if len(k.Entries) > 0 {
			disks += len(k.Entries)
			kept = append(kept, k)
		}
	}
	out := cmd.OutOrStdout()
	if disks == 0 {
		fmt.Fprintf(out, "There is nothing to acknowledge; %d disks are acknowledged already.\n", known)
		return nil
	}
	toolOutput(cmd).Table(keptTable(kept))
	fmt.Fprintf(out, "\n%d to acknowledge, %d acknowledged already.\n", disks, known)
	if !o.confirm {
		fmt.Fprintln(out, "Nothing was changed. To acknowledge, run this again with --confirm.")
		return nil
	}
	var done atomic.Int64
	_, err = tool.Batch[migrate.Kept]{All: kept, What: "reports", Write: func(ctx context.Context, k *migrate.Kept) (string, error) {
		err := migrate.Acknowledge(ctx, reports, k)
		if err == nil {
			done.Add(int64(len(k.Entries)))
		}
		return "report of node " + k.Node, err
	}}.Run(cmd.Context(), cmd.ErrOrStderr())
	fmt.Fprintf(out, "Acknowledged %d.\n", done.Load())
	return err
}

func keptTable(kept []migrate.Kept) [][]string {
	rows := [][]string{{"NODE", "CLASS", "NAME", "STATE", "REASON", "ACKNOWLEDGEMENT"}}
	for _, k := range kept {
		for i := range k.Entries {
			e := &k.Entries[i]
			rows = append(rows, []string{k.Node, e.Class, e.Name, string(e.State), e.Reason, e.Acknowledgement})
		}
	}
	return rows
}
