// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
)

// setup is the cluster of one run, and its objects.
type setup struct {
	workload Workload
	arm      Arm
	progress func(format string, args ...any)

	cluster   *cluster.Cluster
	client    kubernetes.Interface // without a limit of requests
	scheduler *cluster.Process     // nil in arms without one
	extender  *extender            // nil in arms without one
	// controller is stowage-controller, nil in arms without it.
	controller *cluster.Process
	recorder   *recorder
	closers    []func()

	volumes    []*v1.PersistentVolume // as made, by number
	nextVolume atomic.Int64           // the first that no bound claim has taken

	mu     sync.Mutex
	claims map[string]*v1.PersistentVolumeClaim // as made, by name

	// events counts what sendEvents did, in place of pods.
	events int
}

// open starts etcd and the API server; the PV controller comes later.
func open(ctx context.Context, c Config) (s *setup, err error) {
	s = &setup{workload: c.Workload, arm: c.Arm, progress: c.Progress, claims: map[string]*v1.PersistentVolumeClaim{}}
	config := cluster.Config{
		Binaries:          c.Binaries,
		NoKwok:            true, // until the load begins
		EtcdData:          c.Prepared,
		APIServer:         cluster.APIServerConfig{DisableAdmission: []string{"ServiceAccount"}},
		ControllerManager: cluster.ControllerManagerConfig{Disabled: true, Controllers: cluster.VolumeControllers},
	}
	if c.Workload.controlled {
		config.ControllerManager.Controllers = cluster.DefaultControllers
		config.ControllerManager.QPS, config.ControllerManager.Burst = clientQPS, clientQPS
	}
	if c.Arm == InPlace || c.Arm == Ceiling && c.Workload.claimsOnly {
		config.ControllerManager = config.ControllerManager.WithoutPVController()
	}
	if s.cluster, err = cluster.Start(ctx, config); err != nil {
		return nil, err
	}
	rest := s.cluster.RESTConfig()
	rest.ContentType, rest.QPS = runtime.ContentTypeProtobuf, -1
	if s.client, err = kubernetes.NewForConfig(rest); err != nil {
		return nil, errors.Join(err, s.cluster.Stop())
	}
	return s, nil
}

// close ends everything.
func (s *setup) close() error {
	for i := range s.closers {
		s.closers[len(s.closers)-1-i]()
	}
	return s.cluster.Stop()
}

// background runs something until the setup is closed.
func (s *setup) background(ctx context.Context, run func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	s.closers = append(s.closers, func() { cancel(); running.Wait() })
}

// startPVController starts the PV controller, and stowage-controller in arms that have it. It waits until
// all existing volumes were observed.
func (s *setup) startPVController(ctx context.Context, c Config) error {
	s.progress("PV controller")
	if err := s.cluster.ControllerManager().Start(ctx); err != nil {
		return err
	}
	if err := s.startController(ctx, c); err != nil {
		return err
	}
	// It takes one volume after the other, so this one last.
	last := builders.MakePV("last").Class("last").Hostname("none").Obj()
	if _, err := s.client.CoreV1().PersistentVolumes().Create(ctx, last, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := await.Object(ctx, s.client.CoreV1().PersistentVolumes(), last.Name, func(pv *v1.PersistentVolume) bool {
		return pv.Status.Phase == v1.VolumeAvailable
	}); err != nil {
		return fmt.Errorf("wait for the PV controller to make volume %s Available: %w", last.Name, err)
	}
	return nil
}

// rights of the scheduler beyond those that kube-scheduler has.
var rights = []string{"manifests/scheduler/direct-binding/role.yaml", "manifests/scheduler/only/rbac.yaml"}

// startScheduler starts the arm's scheduler.
func (s *setup) startScheduler(ctx context.Context, c Config) error {
	qps := clientQPS
	if s.workload.defaultQPS {
		qps = 0
	}
	config, err := schedulerConfig(s.arm, qps)
	if s.extender != nil {
		config, err = s.extender.schedulerConfig()
	}
	if err != nil {
		return err
	}
	s.progress("scheduler")
	if err := s.cluster.CreateFiles(ctx, rights...); err != nil {
		return fmt.Errorf("run this from the top of the repository: %w", err)
	}
	s.scheduler, err = s.cluster.StartHealthyScheduler(ctx, cluster.SchedulerOptions{
		Name: "stowage-scheduler", Binary: c.Scheduler, ConfigYAML: config,
		ExtraArgs: []string{fmt.Sprintf("--v=%d", c.Profile.Verbosity)},
	})
	return err
}

// clientQPS of the scheduler in all arms, except in workloads with
// kube-scheduler's defaults: high enough never to be the limit.
const clientQPS = 5000

// topologyConfig is the configuration of arms with VolumeTopology, whose last lines are of the
// profile.
const topologyConfig = "test/perf/schedulerperf/config/volumetopology.yaml"

const pvControllerArgs = `  pluginConfig:
  - name: VolumeTopology
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: VolumeTopologyArgs
      bindingMode: PVController
`

// schedulerConfig is the KubeSchedulerConfiguration of an arm. qps 0 leaves the
// client's limits at their defaults.
func schedulerConfig(arm Arm, qps int) (config []byte, err error) {
	switch arm {
	case Stock:
		config = []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	case Direct, PVController, InPlace:
		if config, err = os.ReadFile(topologyConfig); err != nil {
			return nil, fmt.Errorf("run this from the top of the repository: %w", err)
		}
	default:
		return nil, fmt.Errorf("arm %q has no scheduler", arm)
	}
	if arm == PVController {
		config = append(config, pvControllerArgs...)
	}
	if qps > 0 {
		config = fmt.Appendf(config, "clientConnection: {qps: %d, burst: %d}\n", qps, qps)
	}
	return config, nil
}

// volumePlugin is the arm's volume plugin, by its name
// in the scheduler's metrics.
func volumePlugin(arm Arm) string {
	switch arm {
	case Stock, ExtenderAdvisory:
		return "VolumeBinding"
	default: // ExtenderFull has none
		return "VolumeTopology"
	}
}

// Profile is for those who want to know why figures are as they are. It costs some speed.
type Profile struct {
	// Folder, which must exist, receives the logs of scheduler and extender and, as
	// NAME.pprof, a profile of the scheduler's CPU time under load; empty: none.
	Folder string
	// Verbosity of the logs.
	Verbosity int
}

// profileSeconds is how long the scheduler's CPU time is profiled, from the
// load's begin on.
const profileSeconds = 5

// profile starts to profile the scheduler under load. Its result waits until
// the profile is complete, and stores it.
func (s *setup) profile(ctx context.Context, c Config) (stored func() error) {
	if c.Profile.Folder == "" || s.scheduler == nil {
		return func() error { return nil }
	}
	profile := make(chan error, 1)
	name := filepath.Join(c.Profile.Folder, fmt.Sprintf("%s-%s-%d", c.Workload.Name, c.Arm, c.Round))
	go func() {
		data, err := s.scheduler.Get(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileSeconds))
		if err == nil {
			err = os.WriteFile(name+".pprof", data, 0o644)
		}
		profile <- err
	}()
	return func() error {
		logs := keepLog(s.scheduler, name+".log")
		if s.extender != nil {
			logs = errors.Join(logs, keepLog(s.extender.Process, name+".extender.log"))
		}
		return errors.Join(logs, <-profile)
	}
}

// keepLog copies a process's log.
func keepLog(p *cluster.Process, file string) error {
	log, err := os.ReadFile(p.LogFile())
	if err != nil {
		return err
	}
	return os.WriteFile(file, log, 0o644)
}
