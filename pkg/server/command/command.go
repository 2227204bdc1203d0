// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command has the shared parts of Stowage's commands: flags and logs, the configuration
// file and its validation, the connection to the API server, the version.
package command

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/pkg/apis/component"
	"stowage.dev/stowage/pkg/server"
)

// Config describes a command that reads its settings, of type S, from one file.
type Config[S any] struct {
	// Name is that of the component, also for the user agent of its clients.
	Name, Short, Long string
	// File is the help of the flag --config.
	File string
	// Default returns the settings without a file, or why a file is required.
	Default func() (S, error)
	// Decode decodes a file, and returns an error if it is invalid.
	Decode func(text []byte) (S, error)
	// Connection returns the connection to the API server of the settings.
	Connection func(settings S) component.ClientConnection
	// Summary describes valid settings in the output of validate.
	Summary func(settings S) string
	// Run works until ctx ends. secure is of the flags for probes and metrics; nil: plain HTTP.
	Run func(ctx context.Context, settings S, connection *rest.Config, secure *server.Secure) error
}

// New returns the command, with subcommand validate. It runs until its context is done.
func New[S any](c Config[S]) *cobra.Command {
	var file, kubeconfig string
	var secure server.SecureFlags
	cmd := &cobra.Command{
		Use:          c.Name,
		Short:        c.Short,
		Long:         c.Long,
		Args:         cobra.NoArgs,
		Version:      Version(),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			read := c.Default
			if file != "" {
				read = func() (S, error) { return c.read(file) }
			}
			settings, err := read()
			if err != nil {
				return err
			}
			asked := c.Connection(settings)
			if asked.Kubeconfig == "" {
				asked.Kubeconfig = kubeconfig
			}
			connection, err := connect(c.Name, asked)
			if err != nil {
				return err
			}
			overTLS, err := secure.Secure(connection)
			if err != nil {
				return err
			}
			return c.Run(cmd.Context(), settings, connection, overTLS)
		},
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&file, "config", "", c.File)
	flags.StringVar(&kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file, if the configuration has none; the default is the pod's service account")
	secure.Add(cmd.Flags())
	AddLogs(cmd)
	cmd.AddCommand(c.validate())
	return cmd
}

func (c *Config[S]) read(file string) (settings S, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return settings, fmt.Errorf("read the configuration: %w", err)
	}
	if settings, err = c.Decode(text); err != nil {
		return settings, fmt.Errorf("configuration file %s: %w", file, err)
	}
	return settings, nil
}

func (c *Config[S]) validate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration file",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			settings, err := c.read(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid, %s\n", args[0], c.Summary(settings))
			return err
		},
	}
}
