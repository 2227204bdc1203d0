// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the stowage-extender command: configuration and flags,
// client and informers, leader election, serving.
package app

import (
	"errors"

	"github.com/spf13/cobra"

	"stowage.dev/stowage/pkg/apis/component"
	"stowage.dev/stowage/pkg/apis/extender/v1alpha1"
	"stowage.dev/stowage/pkg/server/command"
)

const (
	componentName = "stowage-extender"

	longDescription = `stowage-extender serves the extender protocol of kube-scheduler: it filters and
ranks the nodes that have volumes for a pod, and in mode Full binds volumes and pod.

It is for clusters that can configure kube-scheduler but not replace it; see
docs/extender.md. Its own configuration is in docs/extender-configuration.md.`
)

// NewCommand returns the stowage-extender command. It runs until the command's context is
// done.
func NewCommand() *cobra.Command {
	return command.New(command.Config[*v1alpha1.ExtenderConfiguration]{
		Name: componentName, Short: "Serve kube-scheduler's extender protocol for volumes", Long: longDescription,
		File: "file with an ExtenderConfiguration (extender.config.stowage.dev/v1alpha1)",
		Default: func() (*v1alpha1.ExtenderConfiguration, error) {
			return nil, errors.New("--config is required: certificates have no default")
		},
		Decode: v1alpha1.Decode,
		Connection: func(settings *v1alpha1.ExtenderConfiguration) component.ClientConnection {
			return settings.ClientConnection
		},
		Summary: func(settings *v1alpha1.ExtenderConfiguration) string { return "mode " + string(settings.Mode) },
		Run:     run,
	})
}
