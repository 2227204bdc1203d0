// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"stowage.dev/stowage/pkg/localdisk/migrate"
)

const releaseDescription = `release removes the provisioner's finalizer from volumes, so that they can be deleted without
a provisioner: to uninstall, and for nodes that will not return. It needs the rights of an
administrator.

Nothing is cleaned. The table shows whose data may be on which disk; a volume that is
being deleted is removed at once, and its disk is left as it is. Without --confirm nothing
is changed.

To uninstall: --all --stop-provisioners --withdraw --confirm. Volumes with the data of claims are
left then, and can be deleted.

--give-back returns to sig-storage-local-static-provisioner: it manages the volumes again,
with their claims, including those that stowage-provisioner has published.`

// releaseOptions are the flags of release.
type releaseOptions struct {
	migrate.ReleaseOptions
	confirm, stopProvisioners bool
}

func newReleaseCommand() *cobra.Command {
	o := &releaseOptions{}
	cmd := newTool("release (--all | --node NAME ...) [--confirm]", "Release volumes without cleaning them, to uninstall or for nodes that will not return", releaseDescription, clientset, o.run)
	flags := cmd.Flags()
	flags.BoolVar(&o.All, "all", false, "release the volumes of all nodes")
	flags.StringSliceVar(&o.Nodes, "node", nil, "release the volumes of this node, which need not exist any more; may be given more than once")
	flags.BoolVar(&o.confirm, "confirm", false, "release; without it, list only")
	flags.BoolVar(&o.GiveBack, "give-back", false, "hand the volumes over to sig-storage-local-static-provisioner")
	flags.BoolVar(&o.NodeNameOnly, "use-node-name-only", false, "with --give-back: useNodeNameOnly is on in its configuration")
	flags.BoolVar(&o.WhileRunning, "while-running", false, "release volumes although their provisioner runs; it restores the finalizer of those that are not being deleted")
	flags.BoolVar(&o.stopProvisioners, "stop-provisioners", false, "with --all and --confirm: first delete the provisioners' DaemonSet and the cleaning Jobs, and wait for their pods")
	flags.BoolVar(&o.Withdraw, "withdraw", false, "delete the volumes without a claim")
	cmd.MarkFlagsOneRequired("all", "node")
	cmd.MarkFlagsMutuallyExclusive("stop-provisioners", "node")
	cmd.MarkFlagsMutuallyExclusive("withdraw", "give-back")
	cmd.MarkFlagsMutuallyExclusive("stop-provisioners", "while-running")
	cmd.MarkFlagsMutuallyExclusive("all", "node")
	return cmd
}

func (o *releaseOptions) run(cmd *cobra.Command, client kubernetes.Interface) error {
	if o.stopProvisioners && o.confirm {
		ctx, cancel := context.WithTimeout(cmd.Context(), stopTimeout)
		defer cancel()
		if err := migrate.StopProvisioners(ctx, client); err != nil {
			return err
		}
	}
	held, err := migrate.FindHeld(cmd.Context(), client, o.ReleaseOptions)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if len(held) == 0 {
		fmt.Fprintln(out, "There are no volumes to release.")
		return nil
	}
	if err := printHeld(out, held); err != nil {
		return err
	}
	var release []migrate.Held
	dirty := 0
	for _, h := range held {
		if h.Kept != "" {
			continue
		}
		release = append(release, h)
		if h.Data == migrate.NotCleaned {
			dirty++
		}
	}
	kept := len(held) - len(release)
	fmt.Fprintf(out, "\n%d to release, %d of them with data of claims that are gone, %d kept.\n", len(release), dirty, kept)
	if !o.confirm {
		fmt.Fprintln(out, "Nothing was changed. To release, run this again with --confirm.")
		return nil
	}
	released, err := eachVolume(cmd, release, func(ctx context.Context, h *migrate.Held) (string, error) {
		return h.Volume, migrate.Release(ctx, client, h)
	})
	fmt.Fprintf(out, "Released %d.\n", released)
	if err != nil {
		return err
	}
	if kept > 0 {
		return fmt.Errorf("%d volumes were kept: resolve the reasons in the table, then run this again", kept)
	}
	return nil
}

// stopTimeout limits the wait for the pods of provisioners and cleaning Jobs, which have a grace
// period of 30 s, on busy nodes.
const stopTimeout = 5 * time.Minute

func printHeld(w io.Writer, held []migrate.Held) error {
	rows := [][]string{{"VOLUME", "NODE", "CLASS", "PATH", "PHASE", "CLAIM", "DISK", "RESULT"}}
	for _, h := range held {
		phase, result := string(h.Phase), "release"
		if h.Deleting {
			phase, result = "Deleting", "release: the volume is removed then"
		}
		if h.Withdrawn {
			result = "release and delete"
		}
		if h.Kept != "" {
			result = "kept: " + h.Kept
		}
		rows = append(rows, []string{h.Volume, h.Node, h.Class, h.Path, phase, h.Claim, string(h.Data), result})
	}
	return printTable(w, rows)
}
