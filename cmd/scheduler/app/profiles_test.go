// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	configv1 "stowage.dev/stowage/pkg/apis/config/v1"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
)

// goodProfile enables the plugin as documented.
const goodProfile = `
- schedulerName: stowage-scheduler
  plugins:
    multiPoint:
      enabled: [{name: VolumeTopology}]
      disabled: [{name: VolumeBinding}]
`

func TestSetupRejects(t *testing.T) {
	tests := map[string]struct {
		profiles string
		want     []string
	}{
		"both plugins: named, with the lines to add": {
			profiles: `
- schedulerName: twice
  plugins:
    multiPoint:
      enabled: [{name: VolumeTopology}]
`,
			want: []string{
				`profile "twice" enables both VolumeTopology and VolumeBinding`,
				"      disabled:\n      - name: VolumeBinding",
			},
		},
		"both plugins, VolumeBinding at one point only": {
			profiles: `
- schedulerName: twice
  plugins:
    multiPoint:
      enabled: [{name: VolumeTopology}]
      disabled: [{name: VolumeBinding}]
    preBind:
      enabled: [{name: VolumeBinding}]
`,
			want: []string{`profile "twice" enables both VolumeTopology and VolumeBinding`, "from every list of enabled plugins"},
		},
		"both plugins, VolumeBinding both disabled and enabled": {
			profiles: `
- schedulerName: twice
  plugins:
    multiPoint:
      enabled: [{name: VolumeTopology}, {name: VolumeBinding}]
      disabled: [{name: VolumeBinding}]
`,
			want: []string{`profile "twice" enables both VolumeTopology and VolumeBinding`},
		},
		"filter only: the missing points are named": {
			profiles: `
- schedulerName: partial
  plugins:
    multiPoint:
      disabled: [{name: VolumeBinding}]
    filter:
      enabled: [{name: VolumeTopology}]
`,
			want: []string{`profile "partial" enables VolumeTopology only in part: it is missing at preFilter, reserve, preBind,`},
		},
		"preBind disabled by name": {
			profiles: `
- schedulerName: partial
  plugins:
    multiPoint:
      enabled: [{name: VolumeTopology}]
      disabled: [{name: VolumeBinding}]
    preBind:
      disabled: [{name: VolumeTopology}]
`,
			want: []string{`it is missing at preBind,`},
		},
		"reserve disabled for all": {
			profiles: `
- schedulerName: partial
  plugins:
    multiPoint:
      enabled: [{name: VolumeTopology}]
      disabled: [{name: VolumeBinding}]
    reserve:
      disabled: [{name: "*"}]
`,
			want: []string{`it is missing at reserve,`, `Remove VolumeTopology and "*" from the disabled plugins`},
		},
		"score without the preScore it reads": {
			profiles: `
- schedulerName: partial
  plugins:
    multiPoint:
      enabled: [{name: VolumeTopology}]
      disabled: [{name: VolumeBinding}]
    preScore:
      disabled: [{name: VolumeTopology}]
`,
			want: []string{`it is missing at preScore,`},
		},
		"every faulty profile is reported, a good one is not": {
			profiles: goodProfile + `
- schedulerName: first
  plugins: {multiPoint: {enabled: [{name: VolumeTopology}]}}
- schedulerName: second
  plugins: {multiPoint: {enabled: [{name: VolumeTopology}]}}
`,
			want: []string{`profile "first" enables both`, `profile "second" enables both`},
		},
		"bad arguments: path in the file": {
			profiles: goodProfile + `
  pluginConfig:
  - name: NodeAffinity
  - name: VolumeTopology
    args:
      bindTimeoutSeconds: 0
      scoring: {strategy: RequestedToCapacityRatio}
`,
			want: []string{
				"profiles[0].pluginConfig[1].args.bindTimeoutSeconds: Invalid value: 0: must be 1 to 3600: a bind that may not wait can never finish",
				"profiles[0].pluginConfig[1].args.scoring.shape: Required value",
			},
		},
		"misspelt argument": {
			profiles: goodProfile + `
  pluginConfig:
  - name: VolumeTopology
    args: {bindTimeoutSecond: 5}
`,
			want: []string{"config.yaml", "decoding .profiles[0].pluginConfig[0]", "plugin VolumeTopology", `unknown field "bindTimeoutSecond"`},
		},
		"arguments of another plugin": {
			profiles: goodProfile + `
  pluginConfig:
  - name: VolumeTopology
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: VolumeBindingArgs, bindTimeoutSeconds: 5}
`,
			want: []string{"args for plugin VolumeTopology were not of type VolumeTopologyArgs.kubescheduler.config.k8s.io"},
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, made, err := setup(t, fileWithProfiles(t, test.profiles))
			if err == nil {
				t.Fatal("Setup accepted the configuration")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not contain %q:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), `profile "stowage-scheduler"`) {
				t.Errorf("error blames the good profile:\n%v", err)
			}
			if len(made.plugins) > 0 {
				t.Error("a plugin was created before the configuration was rejected")
			}
		})
	}
}

func TestSetupAccepts(t *testing.T) {
	// The volume plugin by profile; "" for none.
	tests := map[string]struct {
		profiles string
		want     map[string]string
	}{
		"as documented": {
			profiles: goodProfile,
			want:     map[string]string{"stowage-scheduler": configv1.PluginName},
		},
		"in VolumeBinding's position": {
			profiles: `
- schedulerName: ordered
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: VolumeTopology}, {name: VolumeZone}, {name: DefaultBinder}]
`,
			want: map[string]string{"ordered": configv1.PluginName},
		},
		"point by point, without scoring": {
			profiles: `
- schedulerName: unscored
  plugins:
    multiPoint: {disabled: [{name: VolumeBinding}]}
    preFilter: {enabled: [{name: VolumeTopology}]}
    filter: {enabled: [{name: VolumeTopology}]}
    reserve: {enabled: [{name: VolumeTopology}]}
    preBind: {enabled: [{name: VolumeTopology}]}
`,
			want: map[string]string{"unscored": configv1.PluginName},
		},
		"all disabled at a point, and VolumeTopology enabled": {
			profiles: goodProfile + `
    filter:
      disabled: [{name: "*"}]
      enabled: [{name: VolumeTopology}]
`,
			want: map[string]string{"stowage-scheduler": configv1.PluginName},
		},
		"VolumeBinding disabled at each of its points": {
			profiles: `
- schedulerName: thorough
  plugins:
    multiPoint: {enabled: [{name: VolumeTopology}]}
    preFilter: {disabled: [{name: VolumeBinding}]}
    filter: {disabled: [{name: VolumeBinding}]}
    preScore: {disabled: [{name: VolumeBinding}]}
    score: {disabled: [{name: VolumeBinding}]}
    reserve: {disabled: [{name: VolumeBinding}]}
    preBind: {disabled: [{name: VolumeBinding}]}
`,
			want: map[string]string{"thorough": configv1.PluginName},
		},
		"ours, a stock profile, and one with neither plugin": {
			profiles: goodProfile + `
- schedulerName: default-scheduler
- schedulerName: neither
  plugins: {multiPoint: {disabled: [{name: VolumeBinding}]}}
`,
			want: map[string]string{"stowage-scheduler": configv1.PluginName, "default-scheduler": names.VolumeBinding, "neither": ""},
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sched, _, _, err := setup(t, fileWithProfiles(t, test.profiles))
			if err != nil {
				t.Fatalf("Setup: %v", err)
			}
			got := map[string]string{}
			for profile, framework := range sched.Profiles {
				got[profile] = volumePluginOf(t, framework.ListPlugins())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("volume plugin by profile (-want +got):\n%s", diff)
			}
		})
	}
}

// volumePluginOf returns the one volume plugin that the framework runs at every point
// that binding needs; "" if none runs anywhere.
func volumePluginOf(t *testing.T, plugins *kubeschedulerconfig.Plugins) string {
	t.Helper()
	found := map[string]int{}
	for _, point := range schedulerconfig.BindingPoints {
		for _, plugin := range point.Set(plugins).Enabled {
			if plugin.Name == configv1.PluginName || plugin.Name == names.VolumeBinding {
				found[plugin.Name]++
			}
		}
	}
	for name, points := range found {
		if len(found) != 1 || points != len(schedulerconfig.BindingPoints) {
			t.Errorf("points at which the framework runs each volume plugin: %v, want one plugin at %d", found, len(schedulerconfig.BindingPoints))
		}
		return name
	}
	return ""
}

// TestPostFilterOrder: a PostFilter of VolumeTopology runs before DefaultPreemption.
func TestPostFilterOrder(t *testing.T) {
	profiles := map[string]string{
		"by multiPoint alone": goodProfile,
		"as documented": goodProfile + `
    postFilter: {enabled: [{name: VolumeTopology}]}
`,
		"with another plugin listed": goodProfile + `
    postFilter: {enabled: [{name: DefaultPreemption}]}
`,
	}
	for name, profile := range profiles {
		t.Run(name, func(t *testing.T) {
			sched, _, _, err := setup(t, fileWithProfiles(t, profile))
			if err != nil {
				t.Fatal(err)
			}
			var order []string
			for _, plugin := range sched.Profiles["stowage-scheduler"].ListPlugins().PostFilter.Enabled {
				order = append(order, plugin.Name)
			}
			ours, theirs := slices.Index(order, configv1.PluginName), slices.Index(order, names.DefaultPreemption)
			if ours < 0 || theirs < 0 || ours > theirs {
				t.Errorf("PostFilter runs %v, want %s before %s", order, configv1.PluginName, names.DefaultPreemption)
			}
		})
	}
}

// TestEnabledAtAgreesWithFramework: enabledAt equals what the framework enables.
func TestEnabledAtAgreesWithFramework(t *testing.T) {
	profiles := goodProfile + `
- schedulerName: stock
- schedulerName: points
  plugins:
    multiPoint: {disabled: [{name: VolumeBinding}]}
    preFilter: {enabled: [{name: VolumeTopology}]}
    filter: {enabled: [{name: VolumeTopology}]}
    reserve: {enabled: [{name: VolumeTopology}]}
    preBind: {enabled: [{name: VolumeTopology}], disabled: [{name: "*"}]}
- schedulerName: less-stock
  plugins:
    score: {disabled: [{name: VolumeBinding}]}
    preScore: {disabled: [{name: "*"}]}
    reserve: {enabled: [{name: VolumeBinding}], disabled: [{name: VolumeBinding}]}
`
	file := fileWithProfiles(t, profiles)
	sched, opts, _, err := setup(t, file)
	if err != nil {
		t.Fatalf("Setup: %v", err)
	}
	planned, err := plannedConfig(klog.Background(), opts)
	if err != nil {
		t.Fatalf("plannedConfig: %v", err)
	}
	for _, profile := range planned.Profiles {
		ran := sched.Profiles[profile.SchedulerName].ListPlugins()
		for _, plugin := range []string{configv1.PluginName, names.VolumeBinding} {
			for _, point := range schedulerconfig.VolumePoints {
				want := false
				for _, enabled := range point.Set(ran).Enabled {
					want = want || enabled.Name == plugin
				}
				if got := schedulerconfig.EnabledAt(profile.Plugins, point, plugin); got != want {
					t.Errorf("profile %s: schedulerconfig.EnabledAt(%s, %s) = %t, the framework has %t", profile.SchedulerName, point.Name, plugin, got, want)
				}
			}
		}
	}
}
