// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	schedulerappconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	compat "stowage.dev/kubecompat/scheduler"

	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	"stowage.dev/stowage/pkg/server"
)

// NewOptions returns kube-scheduler's options with the configuration that
// stowage-scheduler runs without a file.
func NewOptions() *options.Options {
	opts := options.NewOptions()
	opts.ComponentConfig = schedulerconfig.Default()

	// The flag overrides the configuration only if it is set; --help shows its default,
	// which must be the value in use.
	lease := opts.Flags.FlagSet("leader election").Lookup("leader-elect-resource-name")
	lease.DefValue = componentName
	opts.LeaderElection.ResourceName = componentName
	return opts
}

// Setup creates a scheduler from options, ready for kube-scheduler's app.Run. It equals
// kube-scheduler's own Setup, except that it checks the profiles (see schedulerconfig.Check)
// before it creates a client, listener or plugin, and that without a configuration file
// it keeps opts.ComponentConfig, which NewOptions sets, where kube-scheduler uses its own
// defaults.
//
// Goroutines it starts end with ctx.
func Setup(ctx context.Context, opts *options.Options, plugins frameworkruntime.Registry) (*schedulerappconfig.CompletedConfig, *scheduler.Scheduler, error) {
	logger := klog.FromContext(ctx)
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, nil, errors.NewAggregate(errs)
	}
	planned, err := plannedConfig(logger, opts)
	if err != nil {
		return nil, nil, err
	}
	if err := schedulerconfig.Check(planned.Profiles); err != nil {
		return nil, nil, err
	}

	config, err := opts.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	completed := config.Complete()
	schedulerconfig.OrderPostFilter(completed.ComponentConfig.Profiles)
	schedulerconfig.LogWarnings(logger, &completed.ComponentConfig)

	if completed.SecureServing != nil {
		completed.SecureServing.Listener = server.BoundConnections(completed.SecureServing.Listener)
	}
	inProgress := &bindings{}
	if completed.LeaderElection != nil {
		completed.LeaderElection.Lock = lateRelease{completed.LeaderElection.Lock, inProgress}
	}
	sched, profiles, err := newScheduler(ctx, &completed, inProgress.track(plugins))
	if err != nil {
		return nil, nil, err
	}
	// Exits after writing if --write-config-to is given.
	if err := options.LogOrWriteConfig(logger, opts.WriteConfigTo, &completed.ComponentConfig, profiles); err != nil {
		return nil, nil, err
	}
	return &completed, sched, nil
}

// plannedConfig returns the profiles that opts.Config is going to use, without its side
// effects.
func plannedConfig(logger klog.Logger, opts *options.Options) (*kubeschedulerconfig.KubeSchedulerConfiguration, error) {
	if opts.ConfigFile == "" {
		return opts.ComponentConfig, nil
	}
	config, err := options.LoadConfigFromFile(logger, opts.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("load configuration file %s: %w", opts.ConfigFile, err)
	}
	return config, nil
}

// newScheduler creates the scheduler and returns its profiles with all defaults, for
// logging and --write-config-to.
func newScheduler(ctx context.Context, config *schedulerappconfig.CompletedConfig, plugins frameworkruntime.Registry) (*scheduler.Scheduler, []kubeschedulerconfig.KubeSchedulerProfile, error) {
	var profiles []kubeschedulerconfig.KubeSchedulerProfile
	component := &config.ComponentConfig
	sched, err := scheduler.New(ctx,
		config.Client,
		config.InformerFactory,
		config.DynInformerFactory,
		compat.Recorders(config.EventBroadcaster),
		scheduler.WithComponentConfigVersion(component.APIVersion),
		scheduler.WithKubeConfig(config.KubeConfig),
		scheduler.WithProfiles(component.Profiles...),
		scheduler.WithPercentageOfNodesToScore(component.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(plugins),
		scheduler.WithPodInitialBackoffSeconds(component.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(component.PodMaxBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(config.PodMaxInUnschedulablePodsDuration),
		scheduler.WithExtenders(component.Extenders...),
		scheduler.WithParallelism(component.Parallelism),
		scheduler.WithBuildFrameworkCapturer(func(profile kubeschedulerconfig.KubeSchedulerProfile) {
			profiles = append(profiles, profile)
		}),
	)
	return sched, profiles, err
}
