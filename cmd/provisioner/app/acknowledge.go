// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/migrate"
)

const acknowledgeDescription = `acknowledge publishes disks of a node that hold the data of volumes which are gone, with
that data: disks of another cluster (OtherCluster), of volumes that
vanished (VolumeVanished), of volumes of policy Retain (RetainedDirty), of volumes whose disk
has no lasting identity (IdentityUnproven), and those that are about to be cleaned
(OrphanGracePeriod, OrphanCleanWaits). Disks with data that was never a volume's (NotEmpty)
are included only with --reason NotEmpty. It takes the rights of an administrator.

The next claim of a volume sees the data that is on its disk. Without --confirm the
command lists the disks and changes nothing.`

// acknowledgeOptions are the flags of acknowledge.
type acknowledgeOptions struct {
	node    string
	reasons []string
	confirm bool
}

func newAcknowledgeCommand() *cobra.Command {
	o := &acknowledgeOptions{}
	cmd := newTool("acknowledge --node NAME [--reason REASON ...] [--confirm]", "Publish disks of a node with the data of volumes that are gone", acknowledgeDescription, reports, o.run)
	flags := cmd.Flags()
	flags.StringVar(&o.node, "node", "", "the node whose disks are acknowledged")
	flags.StringSliceVar(&o.reasons, "reason", nil, "only disks with this reason in the node's LocalDiskReport; may be given more than once")
	flags.BoolVar(&o.confirm, "confirm", false, "acknowledge; without it, list only")
	_ = cmd.MarkFlagRequired("node") // fails for unknown flags only
	return cmd
}

// acknowledgeable are the reasons that --reason takes.
func acknowledgeable() []string {
	return []string{"OtherCluster", "VolumeVanished", "RetainedDirty", "OrphanGracePeriod", "OrphanCleanWaits", "IdentityUnproven", "NotEmpty"}
}

func (o *acknowledgeOptions) run(cmd *cobra.Command, reports migrate.ReportWriter) error {
	for _, reason := range o.reasons {
		if !slices.Contains(acknowledgeable(), reason) {
			return fmt.Errorf("--reason: must be one of %v, and is %q", acknowledgeable(), reason)
		}
	}
	kept, err := migrate.FindKept(cmd.Context(), reports, o.node, o.reasons)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if len(kept.Entries) == 0 {
		fmt.Fprintf(out, "There is nothing to acknowledge, %d disks are acknowledged already.\n", kept.Acknowledged)
		return nil
	}
	if err := printKept(out, kept.Entries); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d to acknowledge, %d acknowledged already.\n", len(kept.Entries), kept.Acknowledged)
	if !o.confirm {
		fmt.Fprintln(out, "Nothing was changed. To acknowledge, run this again with --confirm.")
		return nil
	}
	if err := migrate.Acknowledge(cmd.Context(), reports, kept); err != nil {
		return err
	}
	fmt.Fprintf(out, "Acknowledged %d.\n", len(kept.Entries))
	return nil
}

func printKept(out io.Writer, entries []stowage.Entry) error {
	rows := [][]string{{"CLASS", "NAME", "STATE", "REASON", "ACKNOWLEDGEMENT"}}
	for i := range entries {
		e := &entries[i]
		rows = append(rows, []string{e.Class, e.Name, string(e.State), e.Reason, e.Acknowledgement})
	}
	return printTable(out, rows)
}
