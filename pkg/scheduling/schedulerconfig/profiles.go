// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedulerconfig has the configuration that stowage-scheduler runs without a file, and checks how
// the profiles of a KubeSchedulerConfiguration use VolumeTopology.
package schedulerconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

// ExtensionPoint is a set of enabled plugins in a profile.
type ExtensionPoint struct {
	// name is the field's name in a configuration file.
	Name string
	Set  func(*config.Plugins) *config.PluginSet
}

var (
	preFilter  = ExtensionPoint{"preFilter", func(p *config.Plugins) *config.PluginSet { return &p.PreFilter }}
	filter     = ExtensionPoint{"filter", func(p *config.Plugins) *config.PluginSet { return &p.Filter }}
	postFilter = ExtensionPoint{"postFilter", func(p *config.Plugins) *config.PluginSet { return &p.PostFilter }}
	preScore   = ExtensionPoint{"preScore", func(p *config.Plugins) *config.PluginSet { return &p.PreScore }}
	score      = ExtensionPoint{"score", func(p *config.Plugins) *config.PluginSet { return &p.Score }}
	reserve    = ExtensionPoint{"reserve", func(p *config.Plugins) *config.PluginSet { return &p.Reserve }}
	preBind    = ExtensionPoint{"preBind", func(p *config.Plugins) *config.PluginSet { return &p.PreBind }}

	// VolumePoints are the points that VolumeTopology and VolumeBinding have in common:
	// all of VolumeBinding's.
	VolumePoints = []ExtensionPoint{preFilter, filter, preScore, score, reserve, preBind}
	// BindingPoints are required to find, reserve and bind a pod's volumes. Scoring is
	// optional.
	BindingPoints = []ExtensionPoint{preFilter, filter, reserve, preBind}
)

// EnabledAt reports whether a plugin that implements the point runs there, by the
// framework's rules: enabled at the point itself, or by multiPoint and not disabled at
// the point. Defaulting has already applied multiPoint.disabled to multiPoint.enabled.
func EnabledAt(plugins *config.Plugins, point ExtensionPoint, plugin string) bool {
	named := func(p config.Plugin) bool { return p.Name == plugin }
	set := point.Set(plugins)
	if slices.ContainsFunc(set.Enabled, named) {
		return true
	}
	disabled := slices.ContainsFunc(set.Disabled, func(p config.Plugin) bool { return named(p) || p.Name == "*" })
	return !disabled && slices.ContainsFunc(plugins.MultiPoint.Enabled, named)
}

// enabledAnywhere reports whether a volume plugin runs at any point.
func enabledAnywhere(plugins *config.Plugins, plugin string) bool {
	return slices.ContainsFunc(VolumePoints, func(point ExtensionPoint) bool { return EnabledAt(plugins, point, plugin) })
}

// Check returns all errors in how defaulted profiles use VolumeTopology, each on
// separate lines; nil if there are none. The plugin cannot check this itself because it
// does not see its profile.
func Check(profiles []config.KubeSchedulerProfile) error {
	var errs []error
	for i := range profiles {
		errs = append(errs, checkPlugins(&profiles[i]))
		errs = append(errs, checkArgs(field.NewPath("profiles").Index(i), &profiles[i])...)
	}
	return errors.Join(errs...)
}

func checkPlugins(profile *config.KubeSchedulerProfile) error {
	plugins := profile.Plugins
	if plugins == nil || !enabledAnywhere(plugins, configv1.PluginName) {
		return nil
	}
	if enabledAnywhere(plugins, names.VolumeBinding) {
		return fmt.Errorf(`profile %q enables both %[2]s and %[3]s, and each would bind the same claims. `+
			`Remove %[3]s from every list of enabled plugins of this profile, and disable the default with:
  plugins:
    multiPoint:
      enabled:
      - name: %[2]s
      disabled:
      - name: %[3]s`, profile.SchedulerName, configv1.PluginName, names.VolumeBinding)
	}
	if missing := missingPoints(plugins); len(missing) > 0 {
		return fmt.Errorf(`profile %q enables %[2]s only in part: it is missing at %[3]s, and works only as a whole. `+
			`Remove %[2]s and "*" from the disabled plugins there, and enable it everywhere with:
  plugins:
    multiPoint:
      enabled:
      - name: %[2]s`, profile.SchedulerName, configv1.PluginName, strings.Join(missing, ", "))
	}
	return nil
}

// OrderPostFilter lists VolumeTopology first at postFilter in the profiles that enable it
// by multiPoint, as files written before it had a PostFilter do. Plugins added to
// multiPoint run after the defaults, so DefaultPreemption would evict more pods before
// VolumeTopology reports that the volumes of the first ones are becoming available.
func OrderPostFilter(profiles []config.KubeSchedulerProfile) {
	for i := range profiles {
		plugins := profiles[i].Plugins
		if plugins == nil || !EnabledAt(plugins, postFilter, configv1.PluginName) {
			continue
		}
		named := func(p config.Plugin) bool { return p.Name == configv1.PluginName }
		if !slices.ContainsFunc(plugins.PostFilter.Enabled, named) {
			plugins.PostFilter.Enabled = slices.Insert(plugins.PostFilter.Enabled, 0, config.Plugin{Name: configv1.PluginName})
		}
	}
}

// missingPoints returns the points that VolumeTopology requires and lacks.
func missingPoints(plugins *config.Plugins) []string {
	needed := slices.Clone(BindingPoints)
	if EnabledAt(plugins, score, configv1.PluginName) {
		needed = append(needed, preScore)
	}
	var missing []string
	for _, point := range needed {
		if !EnabledAt(plugins, point, configv1.PluginName) {
			missing = append(missing, point.Name)
		}
	}
	return missing
}

// checkArgs validates the arguments of VolumeTopology, with their paths in the
// configuration file. kube-scheduler validates only its own plugins' arguments.
func checkArgs(path *field.Path, profile *config.KubeSchedulerProfile) []error {
	var errs []error
	for i, pluginConfig := range profile.PluginConfig {
		if pluginConfig.Name != configv1.PluginName {
			continue
		}
		argsPath := path.Child("pluginConfig").Index(i).Child("args")
		args, ok := pluginConfig.Args.(*configv1.VolumeTopologyArgs)
		if !ok {
			errs = append(errs, fmt.Errorf("%s: got %T, want %sArgs", argsPath, pluginConfig.Args, configv1.PluginName))
			continue
		}
		if faults, ok := errors.AsType[utilerrors.Aggregate](configv1.ValidateVolumeTopologyArgs(argsPath, args)); ok {
			errs = append(errs, faults.Errors()...)
		}
	}
	return errs
}

// LogWarnings logs warnings about configurations that are valid but probably not
// intended.
func LogWarnings(logger klog.Logger, component *config.KubeSchedulerConfiguration) {
	for i := range component.Profiles {
		profile := &component.Profiles[i]
		if profile.Plugins != nil && !enabledAnywhere(profile.Plugins, configv1.PluginName) && !enabledAnywhere(profile.Plugins, names.VolumeBinding) {
			logger.Info("Warning: profile enables neither VolumeTopology nor VolumeBinding; its pods are placed regardless of their volumes, and those with unbound claims never start",
				"profile", profile.SchedulerName)
		}
	}
	if WaitsForKubeScheduler(component) {
		logger.Info("Warning: leader election uses kube-scheduler's lease although no profile is the default scheduler; nothing is scheduled while kube-scheduler holds it. Set leaderElection.resourceName",
			"lease", klog.KRef(component.LeaderElection.ResourceNamespace, component.LeaderElection.ResourceName), "suggested", Name)
	}
	if client := component.ClientConnection; limitsBinding(component) {
		logger.Info("Warning: the API client's limit is low for a scheduler that binds volumes; a pod takes at least six requests, which the limit delays. Set clientConnection in the configuration file",
			"qps", client.QPS, "burst", client.Burst, "suggested", fmt.Sprintf("clientConnection: {qps: %d, burst: %d}", DefaultQPS, DefaultBurst))
	}
}

// limitsBinding reports whether the client's limit, by default 50 requests a second,
// delays pods with claims. A negative limit means none.
func limitsBinding(component *config.KubeSchedulerConfiguration) bool {
	return component.ClientConnection.QPS >= 0 && component.ClientConnection.QPS < lowQPS &&
		slices.ContainsFunc(component.Profiles, func(p config.KubeSchedulerProfile) bool {
			return p.Plugins != nil && enabledAnywhere(p.Plugins, configv1.PluginName)
		})
}

// WaitsForKubeScheduler reports whether a second scheduler competes for the lease of the
// first, which is the default of a file without leaderElection.resourceName.
func WaitsForKubeScheduler(component *config.KubeSchedulerConfiguration) bool {
	election := component.LeaderElection
	isDefault := func(profile config.KubeSchedulerProfile) bool {
		return profile.SchedulerName == corev1.DefaultSchedulerName
	}
	return election.LeaderElect &&
		election.ResourceName == "kube-scheduler" && election.ResourceNamespace == metav1.NamespaceSystem &&
		!slices.ContainsFunc(component.Profiles, isDefault)
}
