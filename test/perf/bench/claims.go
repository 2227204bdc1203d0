// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/perf/benchfmt"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"stowage.dev/stowage/pkg/testing/builders"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/perf/figures"
	"stowage.dev/stowage/test/perf/source"
)

// ClaimWorkloads are claims that no pod uses, of a class with volumes of different sizes.
func ClaimWorkloads() []Workload {
	var all []Workload
	for _, size := range []struct{ nodes, controller, ours int }{{10, 90, 90}, {500, 100, 2000}, {5000, 100, 2000}} {
		volumes := size.nodes * 10
		all = append(all, Workload{
			Name: fmt.Sprintf("claims-%d", volumes), Title: fmt.Sprintf("claims without pods, %d volumes", volumes),
			Nodes: size.nodes, VolumesPerNode: 10, Limit: 5 * minute, claimsOnly: true,
			Arms: []Share{{Controller, size.controller}, {InPlace, size.ours}, {BindNow, size.ours}, {Ceiling, size.ours}},
		})
	}
	return all
}

// claimsPrefix is how the names of the results of a workload of claims begin.
func claimsPrefix(w Workload) string {
	return fmt.Sprintf("Claims/volumes=%d", w.Nodes*w.VolumesPerNode)
}

// Claims runs an arm once, as Run does: all claims are created at once, and are done when they are
// bound.
func Claims(ctx context.Context, c Config) (line *benchfmt.Result, err error) {
	s, err := open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.prepareClaims(ctx, c); err != nil {
		return nil, err
	}
	before, err := s.usage(ctx, false)
	if err != nil {
		return nil, err
	}
	s.progress("%d claims", c.Pods)
	limited, cancel := context.WithTimeout(ctx, s.workload.Limit)
	begin := time.Now()
	err = s.createClaims(limited, "claim", c.Pods)
	cut := limited.Err() != nil && ctx.Err() == nil
	cancel()
	if err != nil && !cut {
		return nil, err
	}
	run := s.outcome(c.Pods, time.Since(begin), cut)
	after, err := s.usage(ctx, true)
	if err != nil {
		return nil, err
	}
	run.usage = after.since(before)
	if run.GivenTwice, err = s.givenTwice(ctx); err != nil {
		return nil, err
	}
	return s.claimsLine(run)
}

// prepareClaims starts all parts of the arm, and binds the first claims.
func (s *setup) prepareClaims(ctx context.Context, c Config) (err error) {
	if err := s.findVolumes(ctx); err != nil {
		return err
	}
	if s.arm != BindNow { // whose class is of late binding
		if err := s.makeImmediate(ctx); err != nil {
			return err
		}
	}
	if s.arm == Ceiling {
		err = s.cluster.ControllerManager().Start(ctx)
	} else {
		err = s.startPVController(ctx, c)
	}
	if err != nil {
		return err
	}
	if err := s.watchClaims(ctx); err != nil {
		return err
	}
	s.progress("warm-up")
	if err := s.createClaims(ctx, "warm", warmUp); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	s.recorder.forget()
	return nil
}

// makeImmediate replaces the class, whose binding mode cannot be changed.
func (s *setup) makeImmediate(ctx context.Context) error {
	classes := s.client.StorageV1().StorageClasses()
	if err := classes.Delete(ctx, class, metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err := classes.Create(ctx, builders.MakeClass(class).BindingMode(storagev1.VolumeBindingImmediate).Obj(), metav1.CreateOptions{})
	return err
}

// createClaims creates claims as fast as it can, and waits until they are bound. In the arm Ceiling it
// binds each to a volume that was chosen before.
func (s *setup) createClaims(ctx context.Context, prefix string, count int) error {
	done := s.recorder.count()
	if err := await.Each(ctx, count, func(ctx context.Context, i int) error {
		name, begin := fmt.Sprintf("%s-%d", prefix, i), time.Now()
		if err := s.makeClaim(ctx, name); err != nil {
			return err
		}
		s.mu.Lock()
		claim := s.claims[name]
		s.mu.Unlock()
		s.recorder.create(claim.UID, begin)
		if s.arm != Ceiling {
			return nil
		}
		return s.bind(ctx, name, s.volumes[int(s.nextVolume.Add(1))-1])
	}); err != nil {
		return err
	}
	return s.recorder.await(ctx, done+count)
}

// claimsLine is the result of an arm in the form in which it is stored.
func (s *setup) claimsLine(r Result) (*benchfmt.Result, error) {
	perClaim := func(v float64) float64 { return v / float64(r.Done) }
	if s.controller != nil {
		used, err := source.Used(s.controller)
		if err != nil {
			return nil, err
		}
		r.PeakMemory = used.Peak
	}
	return figures.Line(figures.Arm(claimsPrefix(s.workload), string(s.arm)), r.Done,
		figures.Value{Value: r.Throughput(), Unit: "claims/s"}, figures.Value{Value: float64(r.Asked), Unit: "asked"}, figures.Value{Value: r.Seconds, Unit: "sec"},
		figures.Value{Value: figures.Measured(s.recorder.first()), Unit: "first-sec"},
		figures.Value{Value: figures.Measured(r.P50), Unit: "p50-sec"}, figures.Value{Value: figures.Measured(r.P99), Unit: "p99-sec"},
		figures.Value{Value: figures.Measured(perClaim(r.PVControllerCPU)), Unit: "pv-controller-cpu-sec/claim"},
		figures.Value{Value: figures.Measured(perClaim(r.ControllerCPU)), Unit: "controller-cpu-sec/claim"},
		figures.Value{Value: figures.Measured(float64(r.PeakMemory)), Unit: "peak-B"},
		figures.Value{Value: perClaim(r.Writes), Unit: "writes/claim"}, figures.Value{Value: perClaim(r.Conflicts), Unit: "409s/claim"},
		figures.Value{Value: float64(r.GivenTwice), Unit: "given-twice"}), nil
}

// controllerSettings are of stowage-controller, by arm.
var controllerSettings = map[Arm]string{InPlace: "inPlace", BindNow: "bindNow"}

// startController starts stowage-controller in arms that have it.
func (s *setup) startController(ctx context.Context, c Config) (err error) {
	loop, ok := controllerSettings[s.arm]
	if !ok {
		return nil
	}
	s.progress("stowage-controller")
	if err := s.cluster.CreateFiles(ctx, "manifests/crd/stowage.dev_localdiskreports.yaml", "manifests/crd/stowage.dev_localdisktombstones.yaml", "manifests/provisioner/namespace.yaml"); err != nil {
		return fmt.Errorf("run this from the top of the repository: %w", err)
	}
	config := filepath.Join(s.cluster.Folder(), "controller.yaml")
	settings := fmt.Appendf(nil, `apiVersion: controller.config.stowage.dev/v1alpha1
kind: ControllerConfiguration
healthAddress: "127.0.0.1:0"
claimBinder: {%s: {enabled: true}}
clientConnection: {qps: %d, burst: %d}
leaderElection: {leaderElect: false}
`, loop, clientQPS, clientQPS)
	if err := os.WriteFile(config, settings, 0o600); err != nil {
		return err
	}
	s.controller, err = s.cluster.StartCommand("controller", c.Controller, []string{"--config=" + config, "--kubeconfig=" + s.cluster.Kubeconfig()}, nil)
	return err
}
