// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/localdisk/migrate/tool"
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

func newReleaseCommand(c *cluster) *cobra.Command {
	r := &tool.Release{}
	cmd := newTool(c, &cobra.Command{
		Use:   "release (--all | --node NAME ...) [--confirm]",
		Short: "Release volumes without cleaning them, to uninstall or for nodes that will not return",
		Long:  releaseDescription,
	}, clientset, func(cmd *cobra.Command, client kubernetes.Interface) error {
		return r.Run(cmd.Context(), client, toolOutput(cmd))
	})
	flags := cmd.Flags()
	flags.BoolVar(&r.All, "all", false, "release the volumes of all nodes")
	flags.StringSliceVar(&r.Nodes, "node", nil, "release the volumes of this node, which need not exist any more; may be given more than once")
	flags.BoolVar(&r.Confirm, "confirm", false, "release; without it, list only")
	flags.BoolVar(&r.GiveBack, "give-back", false, "hand the volumes over to sig-storage-local-static-provisioner")
	flags.BoolVar(&r.NodeNameOnly, "use-node-name-only", false, "with --give-back: useNodeNameOnly is on in its configuration")
	flags.BoolVar(&r.WhileRunning, "while-running", false, "release volumes although their provisioner runs; it restores the finalizer of those that are not being deleted")
	flags.BoolVar(&r.StopProvisioners, "stop-provisioners", false, "with --all and --confirm: first delete the provisioners' DaemonSets and the cleaning Jobs, and wait for their pods")
	flags.BoolVar(&r.Withdraw, "withdraw", false, "delete the volumes without a claim")
	c.completeFlag(cmd, "node", snapshot.KindOf[*corev1.Node]())
	cmd.MarkFlagsOneRequired("all", "node")
	cmd.MarkFlagsMutuallyExclusive("stop-provisioners", "node")
	cmd.MarkFlagsMutuallyExclusive("withdraw", "give-back")
	cmd.MarkFlagsMutuallyExclusive("stop-provisioners", "while-running")
	cmd.MarkFlagsMutuallyExclusive("all", "node")
	return cmd
}
