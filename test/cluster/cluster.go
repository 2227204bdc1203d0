// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster runs a real Kubernetes control plane on one machine: etcd,
// kube-apiserver, kube-controller-manager, nodes simulated by kwok and any
// number of schedulers, for the demo, the integration tests and the benchmarks.
//
//	binaries, err := cluster.Build(ctx, cluster.BuildOptions{Progress: os.Stderr})
//	...
//	c, err := cluster.Start(ctx, cluster.Config{Binaries: binaries})
//	...
//	defer c.Stop()
//	err = c.AddNodes(ctx, cluster.NodeSet{Count: 3}.Nodes()...)
//	...
//	scheduler, err := c.StartScheduler(ctx, cluster.SchedulerOptions{})
//
// Everything listens on 127.0.0.1 or on sockets in the cluster's own temporary
// folder, so any number of clusters run side by side. All processes and the
// folder are removed when the process that called Start ends, however it ends.
//
// Requests are authorized by RBAC; client certificates are issued for any user
// (see KubeconfigFor), servers show certificates of the cluster's own CA.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"stowage.dev/stowage/test/cluster/internal/supervise"
)

// Cluster is a running control plane. Safe for concurrent use.
type Cluster struct {
	config     Config
	folder     folder
	supervisor *supervise.Supervisor
	ca         *authority
	address    string // of the API server
	apiPort    *reservedPort
	admin      identity
	http       *http.Client // the administrator's, for all HTTPS servers
	client     *kubernetes.Clientset

	etcd, apiServer, controllerManager, kwok *Component

	failed   chan error // receives the first unexpected end of a process
	watchers sync.WaitGroup

	mu         sync.Mutex
	identities map[string]identity
	ports      []*reservedPort
	names      map[string]int // schedulers started, by name
	stopped    bool
}

// Start runs a cluster and returns when all of it is ready: kubectl and clients
// work, and pods can be created in the namespace "default". ctx limits how long
// that may take and does not matter afterwards: call Stop to end the cluster.
//
// When a component fails, the error shows the last lines of its log and the
// cluster's folder stays, with all logs in it; not so when ctx is canceled.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	config, err := config.complete()
	if err != nil {
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	c, err := prepare(config)
	if err != nil {
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	if err := c.start(ctx); err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			c.KeepFolder()
		}
		return nil, errors.Join(fmt.Errorf("start a cluster: %w", err), c.Stop())
	}
	return c, nil
}

// prepare makes what a cluster needs before its first process runs.
func prepare(config Config) (*Cluster, error) {
	f, err := newFolder(config.Dir)
	if err != nil {
		return nil, err
	}
	supervisor, err := supervise.New(string(f))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(string(f)))
	}
	c := &Cluster{
		config:     config,
		folder:     f,
		supervisor: supervisor,
		address:    loopback,
		failed:     make(chan error, 1),
		identities: map[string]identity{},
		names:      map[string]int{},
	}
	if err := c.setup(); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) setup() (err error) {
	if c.config.Keep {
		c.KeepFolder()
	}
	if c.config.Network != nil {
		if c.address, err = c.config.Network(c); err != nil {
			return err
		}
	}
	if c.ca, err = writePKI(c.folder, c.address); err != nil {
		return err
	}
	if err := os.WriteFile(c.folder.stages(), stages, 0o644); err != nil {
		return err
	}
	if err := c.loadEtcd(); err != nil {
		return err
	}
	if c.apiPort, err = c.reservePort(c.address); err != nil {
		return err
	}
	if c.admin, err = c.identity(adminUser, adminGroup); err != nil {
		return err
	}
	config := c.RESTConfig()
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfigAndClient(config, c.http); err != nil {
		return err
	}
	return c.makeComponents()
}

// Upgrade makes components run other binaries from their next start on. Call it from the test's own
// goroutine, while no component is being started.
func (c *Cluster) Upgrade(b Binaries) error {
	if err := b.check(); err != nil {
		return err
	}
	c.config.Binaries = b
	return nil
}

// makeComponents defines how each component is started.
func (c *Cluster) makeComponents() error {
	c.etcd = &Component{name: "etcd", start: func() (*Process, error) {
		return c.run(c.etcdRun())
	}}
	c.apiServer = &Component{name: "kube-apiserver", start: func() (*Process, error) {
		return c.run(run{
			name: "kube-apiserver", binary: c.config.Binaries.APIServer, args: c.apiServerArgs(),
			env: stockEnv(c.config.APIServer.Env), port: c.apiPort,
		})
	}}
	port, err := c.reservePort(loopback)
	if err != nil {
		return err
	}
	manager, err := c.identity("system:kube-controller-manager")
	if err != nil {
		return err
	}
	c.controllerManager = &Component{name: "kube-controller-manager", start: func() (*Process, error) {
		return c.run(run{
			name: "kube-controller-manager", binary: c.config.Binaries.ControllerManager,
			args: c.controllerManagerArgs(port, manager.kubeconfig),
			env:  stockEnv(c.config.ControllerManager.Env), port: port,
			healthPath: "/healthz", // it has no other
		})
	}}
	kwok, err := c.identity("kwok", adminGroup)
	if err != nil {
		return err
	}
	c.kwok = &Component{name: "kwok", start: func() (*Process, error) {
		return c.run(run{
			name: "kwok", binary: c.config.Binaries.Kwok, args: c.kwokArgs(kwok.kubeconfig),
			env: stockEnv(nil),
		})
	}}
	return nil
}

func (c *Cluster) etcdRun() run {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", c.folder.etcdSocket())
	}
	return run{
		name: "etcd", binary: c.config.Binaries.Etcd, args: etcdArgs(c.folder), env: stockEnv(nil),
		base: endpoint{
			client: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
			url:    "http://etcd",
		},
	}
}

func (c *Cluster) start(ctx context.Context) error {
	components := []*Component{c.etcd, c.apiServer}
	if !c.config.NoKwok {
		components = append(components, c.kwok)
	}
	if !c.config.ControllerManager.Disabled {
		components = append(components, c.controllerManager)
	}
	for _, m := range components {
		if err := m.Start(ctx); err != nil {
			return err
		}
	}
	if c.config.hasServiceAccounts() {
		if err := c.waitServiceAccount(ctx, metav1.NamespaceDefault); err != nil {
			return err
		}
	}
	select {
	case err := <-c.failed: // of a process that had started before the others
		return err
	default:
		return nil
	}
}

// Etcd is the cluster's database. Without it kube-apiserver is not ready.
func (c *Cluster) Etcd() *Component { return c.etcd }

// APIServer is kube-apiserver; restarts keep its port.
func (c *Cluster) APIServer() *Component { return c.apiServer }

// ControllerManager is kube-controller-manager, and so the PV controller.
func (c *Cluster) ControllerManager() *Component { return c.controllerManager }

// Kwok simulates all nodes: while it is stopped, new nodes do not become Ready,
// bound pods do not run and deleted pods stay.
func (c *Cluster) Kwok() *Component { return c.kwok }

// SaveEtcd stops kube-apiserver and etcd, and copies etcd's data into a folder that must not
// exist yet: other clusters may start with it, see Config.EtcdData. Components that need the
// API server fail until both are started again.
func (c *Cluster) SaveEtcd(ctx context.Context, folder string) error {
	for _, m := range []*Component{c.apiServer, c.etcd} {
		if err := m.Stop(ctx); err != nil {
			return err
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if err := os.CopyFS(folder, os.DirFS(c.folder.etcdData())); err != nil {
		return fmt.Errorf("copy etcd's data: %w", err)
	}
	return nil
}

// loadEtcd copies the configured data to etcd's data folder.
func (c *Cluster) loadEtcd() error {
	if c.config.EtcdData == "" {
		return nil
	}
	if err := os.Mkdir(c.folder.etcdData(), 0o700); err != nil {
		return err
	}
	if err := os.CopyFS(c.folder.etcdData(), os.DirFS(c.config.EtcdData)); err != nil {
		return fmt.Errorf("Config.EtcdData: %w", err)
	}
	return nil
}

// Folder is the cluster's own folder, with the log of each component.
func (c *Cluster) Folder() string { return string(c.folder) }

// KeepFolder keeps the folder after the end of the cluster, to find the cause of a failure.
func (c *Cluster) KeepFolder() { c.supervisor.Keep(true) }

// Failed receives an error when a process ends unexpectedly; only the first.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Stop kills all processes, waits for their end and removes the cluster's
// folder unless KeepFolder was called. Stopping again does nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	first := !c.stopped
	c.stopped = true
	c.mu.Unlock()
	err := c.supervisor.Close()
	c.watchers.Wait()
	if !first {
		return nil
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	for _, p := range c.ports {
		p.release()
	}
	if err != nil {
		return fmt.Errorf("stop the cluster in %s: %w", c.folder, err)
	}
	return nil
}
