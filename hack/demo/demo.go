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
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/provisioners"
)

// startTimeout is ample for a slow machine.
var startTimeout = 2 * deadline.Wait()

const (
	// stowage is the schedulerName of the sample configuration, stock that of
	// pods which name none.
	stowage = "stowage-scheduler"
	stock   = "default-scheduler"

	configFile = "manifests/scheduler/second/config.yaml"
)

// rights are the manifests for the rights of a second scheduler.
var rights = []string{
	"manifests/scheduler/direct-binding/role.yaml",
	"manifests/scheduler/second/rbac.yaml",
}

// demo is one run of the steps.
type demo struct {
	cluster *cluster.Cluster
	// scheduler is stowage-scheduler; begin is when everything was built.
	scheduler *cluster.Process
	begin     time.Time
	watch     *watch

	provisioner string // path of the binary
	disks       string // folder of the nodes' disks; empty before there are any

	background sync.WaitGroup     // of informers and the external provisioner
	end        context.CancelFunc // stops them
}

// start builds and starts everything that the steps need.
func start(ctx context.Context) (_ *demo, err error) {
	config, err := os.ReadFile(configFile)
	if err != nil {
		return nil, fmt.Errorf("run this from the top of the repository (make demo): %w", err)
	}
	progress := cluster.BuildOptions{Progress: os.Stderr}
	fmt.Fprintln(os.Stderr, "Building the control plane, stowage-scheduler and stowage-provisioner, unless they are up to date ...")
	binaries, err := cluster.Build(ctx, progress)
	if err != nil {
		return nil, err
	}
	scheduler, err := cluster.BuildCommand(ctx, progress, "stowage.dev/stowage/cmd/scheduler")
	if err != nil {
		return nil, err
	}
	provisioner, err := provisioners.Build(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "Starting etcd, kube-apiserver, kube-controller-manager and two schedulers ...")
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Binaries: binaries})
	if err != nil {
		return nil, err
	}
	d := &demo{cluster: c, begin: begin, provisioner: provisioner, end: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop(false))
		}
	}()
	if err := provisioners.Apply(ctx, c); err != nil {
		return nil, err
	}
	if err := d.startSchedulers(ctx, scheduler, config); err != nil {
		return nil, err
	}
	err = d.startBackground(ctx)
	return d, err
}

// startSchedulers runs the stock scheduler and stowage-scheduler, the latter with the rights of
// its service account only.
func (d *demo) startSchedulers(ctx context.Context, binary string, config []byte) error {
	if err := d.cluster.CreateFiles(ctx, rights...); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := d.cluster.StartHealthyScheduler(ctx, cluster.SchedulerOptions{LeaderElect: true})
		return err
	})
	group.Go(func() (err error) {
		d.scheduler, err = d.cluster.StartHealthyScheduler(ctx, cluster.SchedulerOptions{
			Name: stowage, Binary: binary, ConfigYAML: config, LeaderElect: true,
			User:   "system:serviceaccount:kube-system:stowage-scheduler",
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"},
		})
		return err
	})
	return group.Wait()
}

// startBackground starts the informers and the external provisioner of class zonal, which log to
// the cluster's folder.
func (d *demo) startBackground(ctx context.Context) error {
	log, err := os.Create(filepath.Join(d.cluster.Folder(), "demo.log"))
	if err != nil {
		return err
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log)))
	klog.SetLogger(logger)
	running, end := context.WithCancel(klog.NewContext(context.Background(), logger))
	d.end = func() {
		end()
		d.background.Wait()
		_ = log.Close()
	}
	if d.watch, err = newWatch(ctx, running, d.cluster); err != nil {
		return err
	}
	d.background.Go(d.watch.shutdown)
	provisioner := newProvisioner(running, d.cluster.Client())
	d.background.Go(func() { provisioner.Run(running) })
	return nil
}

// stop stops everything and removes the disks. keepLogs keeps the folder of the cluster.
func (d *demo) stop(keepLogs bool) error {
	if keepLogs {
		d.cluster.KeepFolder()
		fmt.Fprintln(os.Stderr, "\nThe logs of all components are kept in", d.cluster.Folder())
	}
	d.end()
	return errors.Join(d.cluster.Stop(), os.RemoveAll(d.disks))
}

// keep prints how to use the cluster and leaves it running until ctx is done.
func (d *demo) keep(ctx context.Context) error {
	fmt.Printf(`
The cluster stays up until Ctrl-C. In another terminal:

  export KUBECONFIG=%s
  kubectl get pods,pvc,pv -o wide
  kubectl describe pod archive
  kubectl get ldr -o yaml

stowage-scheduler places pods with schedulerName: %s. The nodes' disks are in
%s, logs in
%s.
`, d.cluster.Kubeconfig(), stowage, d.disks, d.cluster.Folder())
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.cluster.Failed():
		return err
	}
}
