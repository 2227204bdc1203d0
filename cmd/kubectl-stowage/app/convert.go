// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"stowage.dev/stowage/pkg/localdisk/migrate/chartvalues"
)

const convertDescription = `convert-values prints values of Stowage's Helm chart that configure the provisioner as these values of the
chart of sig-storage-local-static-provisioner do, of any of its versions: the same classes, on the same
nodes. Each value that could not be converted is a warning, with the reason and what to do. Nothing is
printed if a value is unknown, or if the provisioner rejects the configuration.`

const convertExamples = `  helm get values local-static-provisioner -n kube-system -o yaml | kubectl stowage convert-values -f - >values.yaml
  helm template stowage CHART --namespace stowage-system --values values.yaml`

func newConvertValuesCommand() *cobra.Command {
	var filename string
	cmd := &cobra.Command{
		Use:     "convert-values -f FILE",
		Short:   "Convert Helm values of sig-storage-local-static-provisioner",
		Long:    convertDescription,
		Example: convertExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			values, err := readValues(cmd, filename)
			if err != nil {
				return fmt.Errorf("--filename: %w", err)
			}
			source := filename
			if source == "-" {
				source = "standard input"
			}
			result, err := chartvalues.Convert(values)
			if err != nil {
				var invalid []error
				for _, fault := range faults(err) {
					invalid = append(invalid, fmt.Errorf("%s: %s", source, fault))
				}
				return errors.Join(invalid...)
			}
			text, err := yaml.Marshal(result.Values)
			if err != nil {
				return fmt.Errorf("encode the values: %w", err)
			}
			for _, warning := range result.Warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", warning)
			}
			fmt.Fprint(cmd.OutOrStdout(), string(text))
			return nil
		},
	}
	cmd.Flags().StringVarP(&filename, "filename", "f", "", "values of the chart of sig-storage-local-static-provisioner; - is the standard input")
	_ = cmd.MarkFlagRequired("filename") // fails for unknown flags only
	return cmd
}

// readValues reads a file of Helm values. An empty one has none.
func readValues(cmd *cobra.Command, filename string) (map[string]any, error) {
	in := cmd.InOrStdin()
	if filename != "-" {
		file, err := os.Open(filename)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if err := utilyaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("%s: must be a YAML object with Helm values: %w", filename, err)
	}
	return values, nil
}
