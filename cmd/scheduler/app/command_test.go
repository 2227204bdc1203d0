// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/configz"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	upstreamapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
)

// defaultArgs are the plugin's arguments without configuration.
var defaultArgs = &configv1.VolumeTopologyArgs{
	BindTimeoutSeconds: new(int64(600)),
	BindingMode:        configv1.BindingModeDirect,
	Scoring:            configv1.VolumeScoring{Strategy: configv1.ScoringBestFit, StaticWeightPercent: new(int32(50))},
}

func TestWithoutConfigFile(t *testing.T) {
	sched, opts, made, err := setup(t, "")
	if err != nil {
		t.Fatalf("Setup: %v", err)
	}
	framework := sched.Profiles["stowage-scheduler"]
	if len(sched.Profiles) != 1 || framework == nil {
		t.Fatalf("profiles are %v, want stowage-scheduler alone", sets.KeySet(sched.Profiles))
	}
	if got := volumePluginOf(t, framework.ListPlugins()); got != configv1.PluginName {
		t.Errorf("volume plugin is %q, want %q", got, configv1.PluginName)
	}
	if diff := cmp.Diff(defaultArgs, made.plugins[0].args); diff != "" {
		t.Errorf("plugin's arguments (-want +got):\n%s", diff)
	}
	election := opts.ComponentConfig.LeaderElection
	if !election.LeaderElect || election.ResourceNamespace != "kube-system" || election.ResourceName != "stowage-scheduler" {
		t.Errorf("leader election is %+v, want the lease kube-system/stowage-scheduler", election)
	}
	if client := opts.ComponentConfig.ClientConnection; client.QPS != 1000 || client.Burst != 2000 {
		t.Errorf("client limits are %v and %v, want 1000 and 2000", client.QPS, client.Burst)
	}
}

func TestFlagsOverrideDefaultConfig(t *testing.T) {
	_, opts, _, err := setup(t, "", "--leader-elect=false", "--leader-elect-resource-name=mine", "--kube-api-qps=7")
	if err != nil {
		t.Fatalf("Setup: %v", err)
	}
	if election := opts.ComponentConfig.LeaderElection; election.LeaderElect || election.ResourceName != "mine" {
		t.Errorf("leader election is %+v, want it off, with the lease named mine", election)
	}
	if qps := opts.ComponentConfig.ClientConnection.QPS; qps != 7 {
		t.Errorf("QPS is %v, want 7", qps)
	}
}

func TestArgumentsReachPlugin(t *testing.T) {
	tests := map[string]struct {
		pluginConfig string
		want         *configv1.VolumeTopologyArgs
	}{
		"not configured: defaults": {
			want: defaultArgs,
		},
		"named without arguments: defaults": {
			pluginConfig: `
  pluginConfig: [{name: VolumeTopology}]
`,
			want: defaultArgs,
		},
		"some arguments, without type": {
			pluginConfig: `
  pluginConfig:
  - name: VolumeTopology
    args: {bindingMode: PVController, scoring: {staticWeightPercent: 0}}
`,
			want: &configv1.VolumeTopologyArgs{
				BindTimeoutSeconds: new(int64(600)),
				BindingMode:        configv1.BindingModePVController,
				Scoring:            configv1.VolumeScoring{Strategy: configv1.ScoringBestFit, StaticWeightPercent: new(int32(0))},
			},
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, made, err := setup(t, fileWithProfiles(t, goodProfile+test.pluginConfig))
			if err != nil {
				t.Fatalf("Setup: %v", err)
			}
			if diff := cmp.Diff(test.want, made.plugins[0].args); diff != "" {
				t.Errorf("plugin's arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitsForKubeScheduler(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		change func(*kubeschedulerconfig.KubeSchedulerConfiguration)
		want   bool
	}{
		"a separate lease": {
			change: func(*kubeschedulerconfig.KubeSchedulerConfiguration) {},
		},
		"kube-scheduler's lease as a second scheduler": {
			change: func(c *kubeschedulerconfig.KubeSchedulerConfiguration) {
				c.LeaderElection.ResourceName = "kube-scheduler"
			},
			want: true,
		},
		"kube-scheduler's lease as its replacement": {
			change: func(c *kubeschedulerconfig.KubeSchedulerConfiguration) {
				c.LeaderElection.ResourceName = "kube-scheduler"
				c.Profiles[0].SchedulerName = "default-scheduler"
			},
		},
		"the same name in another namespace": {
			change: func(c *kubeschedulerconfig.KubeSchedulerConfiguration) {
				c.LeaderElection.ResourceName = "kube-scheduler"
				c.LeaderElection.ResourceNamespace = "stowage"
			},
		},
		"no leader election": {
			change: func(c *kubeschedulerconfig.KubeSchedulerConfiguration) {
				c.LeaderElection.ResourceName = "kube-scheduler"
				c.LeaderElection.LeaderElect = false
			},
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			component := schedulerconfig.Default()
			test.change(component)
			if got := schedulerconfig.WaitsForKubeScheduler(component); got != test.want {
				t.Errorf("waitsForKubeScheduler = %t, want %t", got, test.want)
			}
		})
	}
}

// TestWarnsOfLowClientLimit: at kube-scheduler's default limit the client delays pods
// with claims.
func TestWarnsOfLowClientLimit(t *testing.T) {
	stock := "- schedulerName: " + corev1.DefaultSchedulerName + "\n"
	tests := map[string]struct {
		file string // empty: none
		args []string
		want int
	}{
		"no file":                       {},
		"no file, a flag":               {args: []string{"--kube-api-qps=50"}, want: 1},
		"a file without a value":        {file: fileWithProfiles(t, goodProfile), want: 1},
		"two profiles, one warning":     {file: fileWithProfiles(t, goodProfile+stock), want: 1},
		"a file with a high limit":      {file: limited(t, 200), want: 0},
		"a file with a low limit":       {file: limited(t, 199), want: 1},
		"a file with an unlimited rate": {file: limited(t, -1), want: 0},
		"VolumeTopology is not enabled": {file: fileWithProfiles(t, stock), want: 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
			defer cancel()
			if test.file != "" {
				test.args = append(test.args, "--config="+writeFile(t, "config.yaml", test.file))
			}
			if _, _, err := Setup(ctx, parse(t, test.args...), (&recorder{}).registry()); err != nil {
				t.Fatal(err)
			}
			log, ok := logger.GetSink().(ktesting.Underlier)
			if !ok {
				t.Fatal("the log is not kept")
			}
			text := log.GetBuffer().String()
			if got := strings.Count(text, "clientConnection: {qps: 1000, burst: 2000}"); got != test.want {
				t.Errorf("%d warnings, want %d, in\n%s", got, test.want, text)
			}
		})
	}
}

// limited is a configuration file with a client limit.
func limited(t *testing.T, qps int) string {
	t.Helper()
	return strings.Replace(fileWithProfiles(t, goodProfile), "clientConnection:\n", fmt.Sprintf("clientConnection:\n  qps: %d\n", qps), 1)
}

// execute runs the command and returns its output.
func execute(t *testing.T, args ...string) string {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	command := NewCommand((&recorder{}).registry())
	// All commands of the process share the version flag.
	t.Cleanup(func() {
		if err := command.Flags().Set("version", "false"); err != nil {
			t.Errorf("reset version flag: %v", err)
		}
	})
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs(args)
	command.SetContext(ctx)
	if err := command.Execute(); err != nil {
		t.Fatalf("stowage-scheduler %v: %v", args, err)
	}
	return out.String()
}

func TestVersion(t *testing.T) {
	if got := execute(t, "--version"); !regexp.MustCompile(`^Stowage \S+ \(Kubernetes v1\.\d+.*\)\n$`).MatchString(got) {
		t.Errorf("--version prints %q", got)
	}
	if got := execute(t, "--version=raw"); !regexp.MustCompile(`^Stowage \S+ \(Kubernetes v1\.\d+.*\)\nversion\.Info\{.*\}\n$`).MatchString(got) {
		t.Errorf("--version=raw prints %q", got)
	}
}

func TestHelp(t *testing.T) {
	got := execute(t, "--help")
	for _, want := range []string{
		"stowage-scheduler is kube-scheduler with the VolumeTopology plugin",
		"Usage:\n  stowage-scheduler [flags]",
		`(default "stowage-scheduler")`,
	} {
		if !bytes.Contains([]byte(got), []byte(want)) {
			t.Errorf("--help does not contain %q", want)
		}
	}
}

// TestFlagsOfKubeScheduler: the command line is the same, with one flag more.
func TestFlagsOfKubeScheduler(t *testing.T) {
	flags := func(command *cobra.Command) sets.Set[string] {
		names := sets.New[string]()
		command.Flags().VisitAll(func(flag *pflag.Flag) { names.Insert(flag.Name + " " + flag.Value.Type()) })
		return names
	}
	theirs := flags(upstreamapp.NewSchedulerCommand())
	if theirs.Len() == 0 {
		t.Fatal("kube-scheduler's command has no flags: this test is outdated")
	}
	want := theirs.Insert(skewFlag + " bool")
	if diff := cmp.Diff(sets.List(want), sets.List(flags(NewCommand(nil)))); diff != "" {
		t.Errorf("flags (-kube-scheduler +stowage-scheduler):\n%s", diff)
	}
}

// TestSetupPassesWhatUpstreamPasses reads both sources: every scheduler.WithX that
// kube-scheduler's Setup passes is passed here. It fails if a newer Kubernetes passes
// another one.
func TestSetupPassesWhatUpstreamPasses(t *testing.T) {
	t.Parallel()
	theirs, ours := schedulerOptions(t, upstreamapp.Setup), schedulerOptions(t, newScheduler)
	if theirs.Len() == 0 {
		t.Fatal("kube-scheduler's Setup passes no options: this test is outdated")
	}
	if diff := cmp.Diff(sets.List(theirs), sets.List(ours)); diff != "" {
		t.Errorf("options passed to scheduler.New (-kube-scheduler +stowage-scheduler):\n%s", diff)
	}
}

// schedulerOptions are the names scheduler.WithX in the file that function is in.
func schedulerOptions(t *testing.T, function any) sets.Set[string] {
	t.Helper()
	path, _ := runtime.FuncForPC(reflect.ValueOf(function).Pointer()).FileLine(reflect.ValueOf(function).Pointer())
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse the source of Setup: %v", err)
	}
	found := sets.New[string]()
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if from, ok := selector.X.(*ast.Ident); ok && from.Name == "scheduler" && len(selector.Sel.Name) > 4 && selector.Sel.Name[:4] == "With" {
				found.Insert(selector.Sel.Name)
			}
		}
		return true
	})
	return found
}

// TestStopsWithContext: a stopped scheduler returns no error.
func TestStopsWithContext(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	// Both are global in the process.
	t.Cleanup(func() {
		configz.Delete("componentconfig")
		if err := logsapi.ResetForTest(nil); err != nil {
			t.Errorf("reset logging: %v", err)
		}
	})
	command := NewCommand((&recorder{}).registry())
	command.SetArgs([]string{"--secure-port=0", "--leader-elect=false", "--kubeconfig=" + writeFile(t, "kubeconfig", kubeconfig)})
	if err := command.ExecuteContext(ctx); err != nil {
		t.Errorf("stopped stowage-scheduler: %v", err)
	}
}
