// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	provisioner "stowage.dev/stowage/pkg/apis/provisioner/v1alpha1"
	"stowage.dev/stowage/pkg/localdisk/cleanjob"
	"stowage.dev/stowage/pkg/localdisk/device/host"
	"stowage.dev/stowage/pkg/localdisk/device/identity"
	"stowage.dev/stowage/pkg/localdisk/device/ticket"
	"stowage.dev/stowage/pkg/localdisk/diskrecord"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	localprovisioner "stowage.dev/stowage/pkg/localdisk/provisioner"
	"stowage.dev/stowage/pkg/metrics"
	"stowage.dev/stowage/pkg/recorder"
	"stowage.dev/stowage/pkg/server"
)

// gcPercent trades CPU, of which the provisioner uses little, for memory on every node.
const gcPercent = 40

// LocalDisks are written at this rate: all nodes of a cluster may start to list their disks at
// once.
const disksQPS, disksBurst = 1, 2

// run runs the provisioner until ctx ends.
func (o *options) run(ctx context.Context) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if o.node == "" {
		return errors.New("the node's name is not known: set MY_NODE_NAME in the pod, or --node-name")
	}
	settings, err := provisioner.DecodeFolder(o.config)
	if err != nil {
		return fmt.Errorf("read the configuration in %s: %w", o.config, err)
	}
	for _, warning := range settings.Warnings() {
		klog.FromContext(ctx).Info("Configuration warning", "warning", warning)
	}
	machine, err := identity.ReadMachine(o.sys, o.machineID)
	if err != nil {
		return err
	}
	if machine == "" {
		klog.FromContext(ctx).Info("The machine has neither a product UUID nor a machine ID; serial numbers and file systems' UUIDs identify disks until it restarts only", "machineIDFile", o.machineID)
	}
	node, err := host.New(host.Config{
		Proc: o.proc, Sys: o.sys, Machine: machine, Fstab: o.fstab, KubeletDir: o.kubeletDir, KubeletPath: o.kubeletPath, Timeout: settings.ProbeTimeout.Duration,
	})
	if err != nil {
		return err
	}
	records, err := diskrecord.Open(filepath.Join(o.stateDir, "disks"), o.proc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	metrics.RegisterProvisioner()
	return o.serve(ctx, localprovisioner.Config{
		Node: o.node, Machine: machine, Settings: settings, Records: records, Prober: node, Inspector: node, Cleaner: node, Fence: node, Recheck: o.recheck,
		Tickets: ticket.Folder(cleanjob.TicketFolder), Devices: node, Health: node, KubeletDir: o.kubeletDir,
	})
}

// serve connects the provisioner to the API server, and runs it with its probes.
func (o *options) serve(ctx context.Context, config localprovisioner.Config) error {
	connection, err := o.api.client()
	if err != nil {
		return err
	}
	secure, err := o.secure.Secure(connection)
	if err != nil {
		return err
	}
	config.Client, err = kubernetes.NewForConfig(connection)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if config.Reports, err = diskreports.NewClient(connection); err != nil {
		return err
	}
	if config.Tombstones, err = diskreports.NewTombstoneClient(connection); err != nil {
		return err
	}
	slow := rest.CopyConfig(connection)
	slow.QPS, slow.Burst = disksQPS, disksBurst
	if config.Disks, err = diskreports.NewDiskClient(slow); err != nil {
		return err
	}
	events, err := recorder.Start(ctx, config.Client.EventsV1(), scheme(), componentName)
	if err != nil {
		return err
	}
	defer events.Shutdown()
	config.Events = events
	p, err := localprovisioner.New(config)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.Run(ctx) })
	group.Go(func() error { p.Follow(ctx, o.config); return nil })
	group.Go(func() error { p.Heartbeats(ctx); return nil })
	group.Go(func() error {
		return server.Serve(ctx, server.Config{Address: o.listen, Healthy: p.Healthy, Ready: p.Ready, Secure: secure})
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	// The kinds of the objects of events.
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.PersistentVolume{}, &corev1.Node{}, &corev1.ObjectReference{})
	return s
}
