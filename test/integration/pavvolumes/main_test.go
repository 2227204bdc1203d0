// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pavvolumes_test tests how volumes of PavProvisioners are made and deleted on a real
// control plane. The test plays kubelet: it writes the status of helper pods.
package pavvolumes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	controllerv1 "stowage.dev/stowage/pkg/apis/controller/v1alpha1"
	stowage "stowage.dev/stowage/pkg/apis/stowage/v1alpha1"
	"stowage.dev/stowage/pkg/controller/nodeloss"
	"stowage.dev/stowage/pkg/controller/pav/capacities"
	"stowage.dev/stowage/pkg/controller/pav/stagings"
	"stowage.dev/stowage/pkg/controller/pav/steps"
	"stowage.dev/stowage/pkg/controller/pav/volumes"
	"stowage.dev/stowage/pkg/localdisk/diskreports"
	"stowage.dev/stowage/pkg/pav/pavclient"
	"stowage.dev/stowage/pkg/recorder"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/rights"
)

const (
	manifests = "../../../manifests/"
	// namespace is the provisioner namespace.
	namespace = "stowage-pav"
)

// clients are an administrator's.
var clients *pavclient.Clients

// account is who the controller is.
const account = "system:serviceaccount:stowage-system:stowage-controller"

// audit ensures that the manifest grants nothing that no test has the controller use.
var audit = rights.Audit{User: account, Files: []string{manifests + "controller/pav-volumes.yaml"}}

func TestMain(m *testing.M) { os.Exit(audit.Exit(fixture.MainOn(m, config, begin))) }

// config is a cluster that enforces quotas, too. Its nodes are not simulated: the tests play kubelet.
func config() cluster.Config {
	config := audit.Config()
	config.NoKwok = true
	config.ControllerManager.Controllers = append(slices.Clone(cluster.DefaultControllers), "resourcequota-controller")
	return config
}

// begin installs the kinds, and starts the controller and the kubelet of all tests.
func begin(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	client := c.Client()
	if _, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{}); err != nil {
		return nil, err // the garbage collector of pods deletes those of nodes that do not exist
	}
	kinds, controller := manifests+"crd/pav/stowage.dev_", manifests+"controller/"
	if err := c.CreateFiles(ctx, manifests+"provisioner/namespace.yaml", manifests+"crd/stowage.dev_localdiskreports.yaml", manifests+"crd/stowage.dev_localdisktombstones.yaml", kinds+"pavprovisioners.yaml", kinds+"pavvolumes.yaml", kinds+"pavstagings.yaml", controller+"base/rbac.yaml", controller+"pav-volumes.yaml", controller+"pav-policy.yaml",
		manifests+"csi/rbac.yaml", manifests+"csi/policy-stagings.yaml"); err != nil {
		return nil, err
	}
	if clients, err = pavclient.New(c.RESTConfig()); err != nil {
		return nil, err
	}
	if _, err := await.Object(ctx, client.CoreV1().ServiceAccounts(namespace), "default", func(*corev1.ServiceAccount) bool { return true }); err != nil {
		return nil, fmt.Errorf("wait for the service account of helper pods: %w", err)
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	connection, err := c.RESTConfigFor(account, "system:serviceaccounts", "system:serviceaccounts:stowage-system", "system:authenticated")
	if err != nil {
		cancel()
		return nil, err
	}
	wait, err := run(running, connection)
	if err != nil {
		cancel()
		return nil, err
	}
	var nodes sync.WaitGroup
	nodes.Go(func() { logEarly(running, runKubelets(running, client)) })
	return func() {
		cancel()
		nodes.Wait()
		wait()
	}, nil
}

// logEarly logs an error before the end of ctx.
func logEarly(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Ended early")
	}
}

// run starts the controller. wait returns after it has ended
// with ctx.
func run(ctx context.Context, connection *rest.Config) (wait func(), err error) {
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return nil, err
	}
	own, err := pavclient.New(connection)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), stowage.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	events, err := recorder.Start(ctx, client.EventsV1(), scheme, "stowage-controller")
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	shared, err := steps.New(steps.Config{
		Client: client, Clients: own, Informers: factory, Events: events,
		Namespace: namespace, ReporterImage: "stowage-pav-reporter",
	})
	if err != nil {
		return nil, err
	}
	of, err := volumes.New(shared)
	if err != nil {
		return nil, err
	}
	on, err := stagings.New(shared)
	if err != nil {
		return nil, err
	}
	capacity, err := capacities.New(shared)
	if err != nil {
		return nil, err
	}
	reports, err := diskreports.NewClient(connection)
	if err != nil {
		return nil, err
	}
	reportInformer, err := diskreports.NewInformer(reports)
	if err != nil {
		return nil, err
	}
	tombstones, err := diskreports.NewTombstoneClient(connection)
	if err != nil {
		return nil, err
	}
	tombstoneInformer, err := diskreports.NewTombstoneInformer(tombstones)
	if err != nil {
		return nil, err
	}
	settings := &controllerv1.ControllerConfiguration{}
	settings.SetDefaults()
	losses, err := nodeloss.New(nodeloss.Config{
		Namespace: settings.Namespace, Settings: settings.NodeLoss, Client: client, Informers: factory, Reports: reports, ReportInformer: reportInformer,
		Tombstones: tombstones, TombstoneInformer: tombstoneInformer, Events: events, PavVolumes: own.Volumes,
	})
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { reportInformer.RunWithContext(ctx) })
	running.Go(func() { tombstoneInformer.RunWithContext(ctx) })
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), reportInformer.HasSynced, tombstoneInformer.HasSynced)
	running.Go(func() { logEarly(ctx, shared.Run(ctx, of, on, capacity)) })
	running.Go(func() { logEarly(ctx, losses.Run(ctx)) })
	return func() {
		running.Wait()
		factory.Shutdown()
		events.Shutdown()
	}, nil
}
