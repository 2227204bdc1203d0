// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the stowage-controller command: configuration and flags,
// clients and informers, leader election, the loops that do the work.
package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"stowage.dev/stowage/pkg/apis/component"
	"stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	"stowage.dev/stowage/pkg/server/command"
)

const (
	componentName = "stowage-controller"

	longDescription = `stowage-controller does the cluster-wide work: it releases claims whose volumes are lost
with their nodes, where that is enabled, writes the hostnames of nodes for the admission
policies of the provisioners, marks the reports of provisioners that send no heartbeats,
limits the cleaning of disks whose volume is gone, and creates cleaning Jobs, where that is
enabled.

See docs/controller.md. Its configuration is in docs/controller-configuration.md.`
)

// NewCommand returns the stowage-controller command. It works until the command's
// context is done.
func NewCommand() *cobra.Command {
	cmd := command.New(command.Config[*v1alpha1.ControllerConfiguration]{
		Name: componentName, Short: "Release the claims of lost nodes", Long: longDescription,
		File:    "file with a ControllerConfiguration (controller.config.stowage.dev/v1alpha1); without one the defaults hold",
		Default: v1alpha1.Default,
		Decode:  v1alpha1.Decode,
		Connection: func(settings *v1alpha1.ControllerConfiguration) component.ClientConnection {
			return settings.ClientConnection
		},
		Summary: func(settings *v1alpha1.ControllerConfiguration) string {
			return fmt.Sprintf("node loss %s after %s", settings.NodeLoss.Policy, settings.NodeLoss.Delay.Duration)
		},
		Run: run,
	})
	pav := newPavCommand()
	// cli.Run prints the errors of commands that set up logs themselves, and logs those of the
	// others.
	pav.PersistentPreRunE = cmd.PersistentPreRunE
	cmd.AddCommand(pav)
	return cmd
}
