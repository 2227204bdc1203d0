// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate runs a scheduler on a snapshot: kube-scheduler's own code with the plugins of a profile. It
// answers which nodes a pod fits and why not the others, and places pods as the scheduler would. Nothing is
// written: the scheduler's client refuses all requests.
package simulate

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/volumecache"
)

// Config is what is simulated.
type Config struct {
	Snapshot *snapshot.Snapshot
	// Profile is that of the pods' scheduler, with defaults.
	Profile config.KubeSchedulerProfile
	// Plugins are the plugins of the profile that are not kube-scheduler's own.
	Plugins frameworkruntime.Registry
	// PercentageOfNodesToScore is as in KubeSchedulerConfiguration; nil is its default.
	PercentageOfNodesToScore *int32
}

// Simulator is a scheduler on a snapshot, which it does not change. It is not safe for concurrent use.
type Simulator struct {
	scheduler *scheduler.Scheduler
	framework framework.Framework
	nodes     *schedulercache.Snapshot
	informers map[reflect.Type]*informer
	// prefilters are instances of the plugins of the profile's PreFilter, in order; filters are the names of the
	// plugins of its Filter.
	prefilters []fwk.PreFilterPlugin
	filters    []string
	volumes    *volumecache.Cache // nil without VolumeTopology
}

// emulating is held while the feature gates are set.
var emulating sync.Mutex

// emulate sets the feature gates of this process to those of a server's minor of Kubernetes, unless they are of
// an earlier one already, which can only be set once.
func emulate(server *version.Info) error {
	if server == nil {
		return nil
	}
	minor, err := apiversion.ParseGeneric(server.GitVersion)
	if err != nil {
		return fmt.Errorf("version of the API server: %w", err)
	}
	minor = apiversion.MajorMinor(minor.Major(), minor.Minor())
	emulating.Lock()
	defer emulating.Unlock()
	gates := feature.DefaultMutableFeatureGate
	if known := gates.EmulationVersion(); !minor.LessThan(known) {
		return nil
	}
	if err := gates.SetEmulationVersion(minor); err != nil {
		return fmt.Errorf("emulate the feature gates of Kubernetes %s: %w", minor, err)
	}
	return nil
}

// New makes a simulator, with the feature gates of the snapshot's server, which it sets for the process. Goroutines that it
// starts end with ctx.
func New(ctx context.Context, c Config) (*Simulator, error) {
	if err := emulate(c.Snapshot.Server); err != nil {
		return nil, err
	}
	ctx = silent(ctx)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://snapshot", Transport: refusing{}})
	if err != nil {
		return nil, fmt.Errorf("make the client of the simulated scheduler: %w", err)
	}
	s := &Simulator{nodes: schedulercache.NewEmptySnapshot(), informers: informersOf(c.Snapshot)}
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, k := range snapshot.Scheduling() {
		object := k.New()
		factory.InformerFor(object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return s.informers[reflect.TypeOf(object)]
		})
	}
	profile, err := readOnly(c.Profile)
	if err != nil {
		return nil, err
	}
	s.scheduler, err = scheduler.New(ctx, client, factory, nil,
		func(string) events.EventRecorderLogger { return discard{} },
		scheduler.WithProfiles(profile),
		scheduler.WithFrameworkOutOfTreeRegistry(c.Plugins),
		scheduler.WithPercentageOfNodesToScore(c.PercentageOfNodesToScore),
		scheduler.WithNodeInfoSnapshot(s.nodes),
		scheduler.WithBuildFrameworkCapturer(func(p config.KubeSchedulerProfile) { profile = p }),
	)
	if err != nil {
		return nil, fmt.Errorf("make the simulated scheduler of profile %s: %w", profile.SchedulerName, err)
	}
	s.framework = s.scheduler.Profiles[profile.SchedulerName]
	if err := s.instantiate(ctx, profile.PluginConfig, c.Plugins); err != nil {
		return nil, err
	}
	start(s.informers)
	return s, nil
}

// instantiate makes the plugins of the profile's PreFilter, which are called one by one.
func (s *Simulator) instantiate(ctx context.Context, configs []config.PluginConfig, own frameworkruntime.Registry) error {
	registry := frameworkplugins.NewInTreeRegistry()
	if err := registry.Merge(own); err != nil {
		return fmt.Errorf("register plugins: %w", err)
	}
	args := map[string]runtime.Object{}
	for _, c := range configs {
		args[c.Name] = c.Args
	}
	plugins := s.framework.ListPlugins()
	for _, p := range plugins.Filter.Enabled {
		s.filters = append(s.filters, p.Name)
	}
	for _, p := range plugins.PreFilter.Enabled {
		made, err := registry[p.Name](ctx, args[p.Name], s.framework)
		if err != nil {
			return fmt.Errorf("make plugin %s: %w", p.Name, err)
		}
		s.prefilters = append(s.prefilters, made.(fwk.PreFilterPlugin))
		if topology, ok := made.(interface{ Cache() *volumecache.Cache }); ok {
			s.volumes = topology.Cache()
		}
	}
	return nil
}

// silent drops the logs of the scheduler: what is worth knowing is in its answers.
func silent(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// readOnly returns a copy of a profile whose VolumeTopology sends no request when it is made.
func readOnly(profile config.KubeSchedulerProfile) (config.KubeSchedulerProfile, error) {
	profile = *profile.DeepCopy()
	i := slices.IndexFunc(profile.PluginConfig, func(c config.PluginConfig) bool { return c.Name == configv1.PluginName })
	if i < 0 {
		i = len(profile.PluginConfig)
		profile.PluginConfig = append(profile.PluginConfig, config.PluginConfig{Name: configv1.PluginName})
	}
	args, err := configv1.DecodeArgs(profile.PluginConfig[i].Args)
	if err != nil {
		return profile, fmt.Errorf("profile %s: %s: %w", profile.SchedulerName, configv1.PluginName, err)
	}
	args.BindingMode = configv1.BindingModePVController
	profile.PluginConfig[i].Args = args
	return profile, nil
}

// informersOf returns the informers of what a scheduler reads. Pods that have ended are not among it.
func informersOf(s *snapshot.Snapshot) map[reflect.Type]*informer {
	made := map[reflect.Type]*informer{}
	for _, k := range snapshot.Scheduling() {
		objects := s.Objects(k)
		objects = slices.DeleteFunc(objects, func(o snapshot.Object) bool {
			pod, ok := o.(*corev1.Pod)
			return ok && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
		})
		made[reflect.TypeOf(k.New())] = newInformer(objects)
	}
	return made
}

// refusing is the transport of the scheduler's client.
type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s %s: a simulation sends no requests", r.Method, r.URL.Path)
}

// discard drops events.
type discard struct{}

func (discard) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
func (d discard) WithLogger(klog.Logger) events.EventRecorderLogger                           { return d }
