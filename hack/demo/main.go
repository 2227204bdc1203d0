// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo schedules stateful pods by their volumes on a real control plane
// on this machine, prints what happens, and checks the outcome.
//
//	make demo           builds and runs it
//	make demo KEEP=1    leaves the cluster running until Ctrl-C
//
// It starts the programs that make demo builds beside it. It builds, with its arguments for "go build", and starts
// etcd, kube-apiserver, kube-controller-manager, simulated nodes, the stock kube-scheduler and, as a
// second scheduler with the sample configuration and rights of manifests/scheduler/second,
// stowage-scheduler. Three nodes get stowage-provisioner, which publishes plain folders. All of it
// ends with the command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/external"
	"stowage.dev/stowage/test/provisioners"
)

func main() {
	// A closed standard output must not end the demo before it has removed its folders.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Getenv("KEEP") != "")
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
}

// run starts the cluster, runs all steps, checks the outcome and stops everything.
func run(ctx context.Context, keep bool) (err error) {
	d, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop(err != nil && ctx.Err() == nil)) }()
	running, fail := context.WithCancelCause(ctx) // ends when a component does
	var watching sync.WaitGroup
	defer watching.Wait()
	defer fail(nil)
	watching.Go(func() {
		select {
		case err := <-d.cluster.Failed():
			fail(err)
		case <-running.Done():
		}
	})
	for i, s := range steps {
		fmt.Printf("\n%d. %s\n", i+1, s.title)
		d.print("%s", s.text)
		if err := s.run(running, d); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	if err := d.checkAll(running); err != nil {
		return err
	}
	d.print("All as expected, in %s from starting etcd.", time.Since(d.begin).Round(100*time.Millisecond))
	if !keep {
		return nil
	}
	d.printUse()
	<-running.Done()
	if ctx.Err() == nil {
		return context.Cause(running)
	}
	return nil
}

const indent = "   "

// print prints a paragraph.
func (d *demo) print(format string, args ...any) {
	fmt.Println(indent + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n"+indent))
}

var (
	// startTimeout is ample for a slow machine.
	startTimeout = 2 * deadline.Wait()
	// waitTimeout is the deadline of each wait; what is waited for takes a fraction of a second.
	waitTimeout = deadline.Wait() / 2
)

const (
	// stowage is the schedulerName of the sample configuration, stock that of
	// pods which name none.
	stowage = "stowage-scheduler"
	stock   = "default-scheduler"

	configFile = "manifests/scheduler/second/config.yaml"

	namespace = "default" // of the demo's pods and claims
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
	changes   await.Changes // of nodes, pods, claims and volumes

	programs programs
	disks    string // folder of the nodes' disks; empty before there are any

	background sync.WaitGroup // of the external provisioner
	end        func()         // stops it and the informers
}

// programs are the paths of what is built with the demo.
type programs struct{ scheduler, provisioner, plugin string }

// findPrograms finds them beside the demo.
func findPrograms() (p programs, err error) {
	demo, err := os.Executable()
	if err != nil {
		return p, err
	}
	for name, file := range map[string]*string{"scheduler": &p.scheduler, "provisioner": &p.provisioner, "kubectl-stowage": &p.plugin} {
		*file = filepath.Join(filepath.Dir(demo), name)
		if _, err := os.Stat(*file); err != nil {
			return p, fmt.Errorf("run make demo, which builds this beside the demo: %w", err)
		}
	}
	return p, nil
}

// start builds the control plane and starts everything that the steps need.
func start(ctx context.Context) (_ *demo, err error) {
	config, err := os.ReadFile(configFile)
	if err != nil {
		return nil, fmt.Errorf("run this from the top of the repository (make demo): %w", err)
	}
	built, err := findPrograms()
	if err != nil {
		return nil, err
	}
	binaries, err := cluster.Build(ctx, cluster.BuildOptions{Progress: os.Stderr, Args: os.Args[1:]})
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
	d := &demo{cluster: c, begin: begin, programs: built, end: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.stop(false))
		}
	}()
	if err := provisioners.Apply(ctx, c); err != nil {
		return nil, err
	}
	if err := d.startSchedulers(ctx, config); err != nil {
		return nil, err
	}
	err = d.startBackground()
	return d, err
}

// startSchedulers runs the stock scheduler and stowage-scheduler, the latter with the rights of
// its service account only.
func (d *demo) startSchedulers(ctx context.Context, config []byte) error {
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
			Name: stowage, Binary: d.programs.scheduler, ConfigYAML: config, LeaderElect: true,
			User:   "system:serviceaccount:kube-system:stowage-scheduler",
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"},
		})
		return err
	})
	return group.Wait()
}

// startBackground starts the informers and the external provisioner of class zonal, which log to
// the cluster's folder.
func (d *demo) startBackground() error {
	log, err := os.Create(filepath.Join(d.cluster.Folder(), "demo.log"))
	if err != nil {
		return err
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log)))
	klog.SetLogger(logger)
	running, end := context.WithCancel(klog.NewContext(context.Background(), logger))
	factory := informers.NewSharedInformerFactory(d.cluster.Client(), 0)
	d.end = func() {
		end()
		factory.Shutdown()
		d.background.Wait()
		_ = log.Close()
	}
	provisioner := external.Provisioner{Client: d.cluster.Client(), Name: "zonal.demo.stowage.dev", Label: v1.LabelTopologyZone}.Controller(running,
		controller.VolumeName(func(claim *v1.PersistentVolumeClaim) string { return "zonal-" + claim.Name }))
	d.background.Go(func() { provisioner.Run(running) })
	core := factory.Core().V1()
	for _, informer := range []cache.SharedIndexInformer{
		core.Nodes().Informer(), core.Pods().Informer(), core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer(),
	} {
		if _, err := informer.AddEventHandler(d.changes.Handler()); err != nil {
			return err
		}
	}
	factory.StartWithContext(running)
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

// printUse prints how to use the cluster.
func (d *demo) printUse() {
	fmt.Printf(`
The cluster stays up until Ctrl-C. In another terminal:

  export KUBECONFIG=%s
  kubectl get pods,pvc,pv -o wide
  kubectl describe pod archive
  kubectl get ldr -o yaml
  %s ui        # the storage map, in a browser

stowage-scheduler places pods with schedulerName: %s. The nodes' disks are in
%s, logs in
%s.
`, d.cluster.Kubeconfig(), d.programs.plugin, stowage, d.disks, d.cluster.Folder())
}
