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

// featuresOf is the version of Kubernetes whose features of logging there are.
const featuresOf = "1.37"

// AddLogs gives a command, and those below it, the logging flags of Kubernetes' own
// components, and has them applied before it runs. A command below it that has a
// PersistentPreRunE of its own must call this one's.
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
