// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"stowage.dev/stowage/pkg/inspect/simulate"
	"stowage.dev/stowage/pkg/inspect/snapshot"
	"stowage.dev/stowage/pkg/scheduling/schedulerconfig"
	"stowage.dev/stowage/pkg/scheduling/volumetopology"
)

// plugins are those that profiles may have besides kube-scheduler's own.
var plugins = frameworkruntime.Registry{volumetopology.Name: volumetopology.New}

// profile is how a scheduler is configured.
type profile struct {
	config.KubeSchedulerProfile
	// source is where the configuration is from, for users.
	source string
	// percentage is percentageOfNodesToScore.
	percentage *int32
	// extenders are the URLs of extenders, which a simulation cannot call.
	extenders []string
}

// defaultSource is the source of a configuration that no file has.
const defaultSource = "defaults"

// configMaps have the configurations of schedulers that run in the cluster: in kube-system, or where the chart installed
// stowage-scheduler.
func configMaps() []snapshot.Query {
	kind := snapshot.KindOf[*corev1.ConfigMap]()
	return []snapshot.Query{{Kind: kind, Namespace: "kube-system"}, {Kind: kind, Fields: "metadata.name=stowage-scheduler-config"}}
}

// profileOf returns the profile of a scheduler: that of a configuration file, else that of a ConfigMap of
// configMaps, else the default of kube-scheduler or stowage-scheduler. file is the value of --config.
func profileOf(scheduler, file string, s *snapshot.Snapshot) (profile, error) {
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return profile{}, fmt.Errorf("--config: %w", err)
		}
		decoded, err := schedulerconfig.Decode(text)
		if err != nil {
			return profile{}, fmt.Errorf("--config: %s: %w", file, err)
		}
		found, ok := find(decoded, scheduler, "file "+file)
		if !ok {
			return profile{}, fmt.Errorf("--config: %s has no profile %q, which is the pod's spec.schedulerName; it has %s", file, scheduler, strings.Join(names(decoded), ", "))
		}
		return found, nil
	}
	for _, m := range snapshot.Of[*corev1.ConfigMap](s) {
		for _, key := range slices.Sorted(maps.Keys(m.Data)) {
			text := []byte(m.Data[key])
			if !bytes.Contains(text, []byte("KubeSchedulerConfiguration")) {
				continue
			}
			if decoded, err := schedulerconfig.Decode(text); err == nil {
				if found, ok := find(decoded, scheduler, "ConfigMap "+m.Namespace+"/"+m.Name); ok {
					return found, nil
				}
			}
		}
	}
	for _, c := range []*config.KubeSchedulerConfiguration{schedulerconfig.Stock(), schedulerconfig.Default()} {
		if found, ok := find(c, scheduler, defaultSource); ok {
			return found, nil
		}
	}
	return profile{}, unknownSchedulerError(scheduler)
}

// unknownSchedulerError is the name of a scheduler whose configuration is not known.
type unknownSchedulerError string

// Error returns one line.
func (e unknownSchedulerError) Error() string {
	return fmt.Sprintf("the configuration of scheduler %q is not known: give its KubeSchedulerConfiguration with --config", string(e))
}

func find(c *config.KubeSchedulerConfiguration, scheduler, source string) (profile, bool) {
	for _, p := range c.Profiles {
		if p.SchedulerName != scheduler {
			continue
		}
		found := profile{KubeSchedulerProfile: p, source: source, percentage: c.PercentageOfNodesToScore}
		if p.PercentageOfNodesToScore != nil {
			found.percentage = p.PercentageOfNodesToScore
		}
		for _, e := range c.Extenders {
			found.extenders = append(found.extenders, e.URLPrefix)
		}
		return found, true
	}
	return profile{}, false
}

func names(c *config.KubeSchedulerConfiguration) []string {
	var all []string
	for _, p := range c.Profiles {
		all = append(all, p.SchedulerName)
	}
	return all
}

// schedulingQueries are what a simulation of a scheduler reads.
func schedulingQueries() []snapshot.Query {
	queries := configMaps()
	for _, kind := range snapshot.Scheduling() {
		queries = append(queries, snapshot.Query{Kind: kind})
	}
	return queries
}

// simulation returns the simulation of the profile on a snapshot.
func (p profile) simulation(s *snapshot.Snapshot) simulate.Config {
	return simulate.Config{Snapshot: s, Profile: p.KubeSchedulerProfile, Plugins: plugins, PercentageOfNodesToScore: p.percentage}
}

// simulator is the simulation of a scheduler.
type simulator struct {
	*simulate.Simulator
	profile
}

// simulators returns a function that returns the simulation of a scheduler on a snapshot, the same one for each name. file
// is the value of --config. The simulations end with ctx.
func simulators(ctx context.Context, s *snapshot.Snapshot, file string) func(scheduler string) (*simulator, error) {
	known := map[string]*simulator{}
	return func(scheduler string) (*simulator, error) {
		if known[scheduler] != nil {
			return known[scheduler], nil
		}
		p, err := profileOf(scheduler, file, s)
		if err != nil {
			return nil, err
		}
		simulation, err := simulate.New(ctx, p.simulation(s))
		if err != nil {
			return nil, err
		}
		known[scheduler] = &simulator{simulation, p}
		return known[scheduler], nil
	}
}
