// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
)

func newValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration: a ConfigMap in a file, or a folder with a file for each key",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := readConfig(args[0])
			if _, invalid := errors.AsType[provisioner.Errors](err); invalid {
				return fmt.Errorf("%s is not valid:\n%w", args[0], err)
			}
			if err != nil {
				return err
			}
			for _, warning := range config.Warnings() {
				fmt.Fprintln(cmd.OutOrStdout(), "warning:", warning)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is valid, with %d classes\n", args[0], len(config.Classes))
			return nil
		},
	}
}

// readConfig reads a configuration from a folder or from a ConfigMap's manifest.
func readConfig(path string) (*provisioner.ProvisionerConfiguration, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if info.IsDir() {
		return provisioner.DecodeFolder(path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	var configMap corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &configMap); err != nil {
		return nil, fmt.Errorf("read the ConfigMap in %s: %w", path, err)
	}
	if configMap.Kind != "ConfigMap" {
		return nil, fmt.Errorf("read %s: it holds kind %q, and not a ConfigMap", path, configMap.Kind)
	}
	return provisioner.Decode(configMap.Data)
}
