// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	compat "stowage.dev/kubecompat/plugin"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
)

// volumePlugin represents VolumeTopology: it implements the same extension points and
// does nothing. It keeps its arguments.
type volumePlugin struct {
	compat.PreFlight
	args runtime.Object
}

var (
	_ fwk.PreFilterPlugin  = (*volumePlugin)(nil)
	_ fwk.FilterPlugin     = (*volumePlugin)(nil)
	_ fwk.PostFilterPlugin = (*volumePlugin)(nil)
	_ fwk.PreScorePlugin   = (*volumePlugin)(nil)
	_ fwk.ScorePlugin      = (*volumePlugin)(nil)
	_ fwk.ReservePlugin    = (*volumePlugin)(nil)
	_ fwk.PreBindPlugin    = (*volumePlugin)(nil)
)

func (*volumePlugin) Name() string { return configv1.PluginName }

func (*volumePlugin) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (*volumePlugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (*volumePlugin) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (*volumePlugin) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (*volumePlugin) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}

func (*volumePlugin) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

func (*volumePlugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

func (*volumePlugin) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return nil
}

func (*volumePlugin) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

func (*volumePlugin) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return nil
}

// recorder is a registry with volumePlugin; it keeps the instances, one for each profile,
// in order.
type recorder struct {
	plugins []*volumePlugin
}

func (r *recorder) registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{
		configv1.PluginName: func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
			plugin := &volumePlugin{args: args, PreFlight: func(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }}
			r.plugins = append(r.plugins, plugin)
			return plugin, nil
		},
	}
}

// kubeconfig names a server that no test connects to.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u}]
current-context: c
`

// writeFile writes a file for the duration of the test and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// parse returns the options of a command line. The secure port is off.
func parse(t *testing.T, args ...string) *options.Options {
	t.Helper()
	opts := NewOptions()
	args = append([]string{"--secure-port=0", "--kubeconfig=" + writeFile(t, "kubeconfig", kubeconfig)}, args...)
	for _, flags := range opts.Flags.FlagSets {
		flags.ParseErrorsAllowlist.UnknownFlags = true
		if err := flags.Parse(args); err != nil {
			t.Fatalf("parse flags: %v", err)
		}
	}
	return opts
}

// setup runs Setup for a configuration file, given as its content; empty means no file.
// The client has no server.
func setup(t *testing.T, file string, args ...string) (*scheduler.Scheduler, *options.Options, *recorder, error) {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	if file != "" {
		args = append(args, "--config="+writeFile(t, "config.yaml", file))
	}
	opts := parse(t, args...)
	made := &recorder{}
	_, sched, err := Setup(ctx, opts, made.registry())
	return sched, opts, made, err
}

// fileWithProfiles is a configuration file with the given profiles, in YAML.
func fileWithProfiles(t *testing.T, profiles string) string {
	t.Helper()
	return `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: ` + writeFile(t, "kubeconfig", kubeconfig) + `
leaderElection:
  resourceName: stowage-scheduler
profiles:
` + profiles
}
