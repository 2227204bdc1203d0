// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles the stowage-scheduler command: kube-scheduler, with its flags,
// serving, leader election and metrics, plus Stowage's plugin and the checks that it
// requires. Unlike kube-scheduler's own command it rejects profiles that cannot work
// before it starts, and without a configuration file it runs as a second scheduler with
// VolumeTopology enabled.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	kubeversion "k8s.io/component-base/version"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	upstreamapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	compat "stowage.dev/kubecompat/scheduler"

	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	"stowage.dev/stowage/pkg/server/command"
)

// componentName is the name of the command.
const componentName = schedulerconfig.Name

const longDescription = `stowage-scheduler is kube-scheduler with the VolumeTopology plugin instead of
VolumeBinding: it places pods where their volumes are, and provisions volumes
where their pods run. It takes the same flags and KubeSchedulerConfiguration.

Without --config it runs one profile, "stowage-scheduler", with VolumeTopology
enabled and VolumeBinding disabled, in addition to the cluster's own scheduler:
pods choose it by spec.schedulerName. Leader election then uses the lease
kube-system/stowage-scheduler.`

// NewCommand returns the stowage-scheduler command. plugins are the out-of-tree
// plugins that profiles may enable. The scheduler runs until the command's
// context is done.
func NewCommand(plugins frameworkruntime.Registry) *cobra.Command {
	opts := NewOptions()
	var allowSkew *bool
	cmd := &cobra.Command{
		Use:  componentName,
		Long: longDescription,
		Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			// Feature gates must be set before they are read.
			return opts.ComponentGlobalsRegistry.Set()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if text := versionText(cmd.Flags().Lookup("version").Value.String()); text != "" {
				_, err := io.WriteString(cmd.OutOrStdout(), text)
				return err
			}
			return run(cmd, opts, plugins, *allowSkew)
		},
	}

	allowSkew = opts.Flags.FlagSet("misc").Bool(skewFlag, false,
		"Run although the API server is older than this scheduler, which Kubernetes does not support.")
	global := opts.Flags.FlagSet("global")
	verflag.AddFlags(global)
	globalflag.AddGlobalFlags(global, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, flags := range opts.Flags.FlagSets {
		cmd.Flags().AddFlagSet(flags)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *opts.Flags, columns)
	if err := cmd.MarkFlagFilename("config", "yaml", "yml", "json"); err != nil {
		klog.Background().Error(err, "Failed to mark flag for completion", "flag", "config")
	}
	return cmd
}

// run applies the logging flags, then sets the scheduler up and runs it. Unless allowSkew is
// set, it refuses to run with an API server that is older than the scheduler.
func run(cmd *cobra.Command, opts *options.Options, plugins frameworkruntime.Registry, allowSkew bool) error {
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return err
	}
	cliflag.PrintFlags(cmd.Flags())

	release, err := compat.NameInformers(opts, componentName)
	if err != nil {
		return err
	}
	defer release()

	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	config, scheduler, err := Setup(ctx, opts, plugins)
	if err != nil {
		return err
	}
	if gates, ok := gates.(featuregate.MutableFeatureGate); ok {
		gates.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()

	if !allowSkew {
		checked, err := newSkewCheck(config.Client.Discovery().RESTClient(), cancel).enforce(ctx)
		if err != nil {
			return err
		}
		defer func() { cancel(nil); <-checked }()
	}

	klog.FromContext(ctx).Info("Starting Stowage scheduler", "version", command.Version(), "kubernetesVersion", kubernetesVersion())
	err = upstreamapp.Run(ctx, config, scheduler)
	if cause := context.Cause(ctx); errors.Is(cause, errVersionSkew) {
		return cause
	}
	if ctx.Err() != nil {
		// Upstream returns an error when it is stopped.
		return nil
	}
	if err == nil {
		err = errors.New("scheduler stopped unexpectedly")
	}
	return fmt.Errorf("run scheduler: %w", err)
}

// versionText returns the output for a value of the version flag: "true" and "raw"
// request the version; "false" and a version to report (--version=vX.Y.Z) have no output.
func versionText(asked string) string {
	text := fmt.Sprintf("Stowage %s (Kubernetes %s)\n", command.Version(), kubernetesVersion())
	switch asked {
	case "true":
		return text
	case "raw":
		return text + fmt.Sprintf("%#v\n", kubeversion.Get())
	}
	return ""
}

// kubernetesVersion is the version that the build set in component-base, else that of the
// Kubernetes module.
func kubernetesVersion() string {
	stamped := kubeversion.Get().GitVersion
	if !strings.HasPrefix(stamped, "v0.0.0-") {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version
			}
		}
	}
	return "v" + kubeversion.DefaultKubeBinaryVersion
}
