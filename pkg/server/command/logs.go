// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// featuresOf is the version of Kubernetes whose logging features are enabled.
const featuresOf = "1.37"

// AddLogs adds the logging flags of Kubernetes' components to a command and its subcommands, and
// applies them before the command runs. A subcommand with a PersistentPreRunE must call this one.
func AddLogs(cmd *cobra.Command) {
	config, gate := logsapi.NewLoggingConfiguration(), featuregate.NewVersionedFeatureGate(apiversion.MustParse(featuresOf))
	logsapi.AddFlags(config, cmd.PersistentFlags())
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		logs.InitLogs()
		if err := logsapi.AddFeatureGates(gate); err != nil {
			return err
		}
		return logsapi.ValidateAndApply(config, gate)
	}
}
