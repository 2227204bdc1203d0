// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Sets of controllers for ControllerManagerConfig.Controllers, by the names
// of kube-controller-manager's flag --controllers. Callers must not change them.
var (
	// VolumeControllers bind claims and PVs, and remove the finalizers of both once
	// they are unused.
	VolumeControllers = []string{
		PVController,
		"persistentvolume-protection-controller",
		"persistentvolumeclaim-protection-controller",
	}

	// DefaultControllers are those that stateful workloads need: volumes,
	// generic ephemeral volumes, StatefulSets, service accounts and the
	// collection of garbage. Nodes stay Ready when their kubelet stops sending heartbeats.
	DefaultControllers = slices.Concat(VolumeControllers, []string{
		"ephemeral-volume-controller",
		"statefulset-controller",
		"serviceaccount-controller",
		"garbage-collector-controller",
		"pod-garbage-collector-controller",
		"namespace-controller",
	})

	// AllControllers are those that kube-controller-manager runs by default,
	// among them the node lifecycle controller.
	AllControllers = []string{"*"}
)

// PVController is the controller that binds claims and PVs.
const PVController = "persistentvolume-binder-controller"

// Controllers that other settings of the cluster depend on.
const (
	serviceAccountController = "serviceaccount-controller"
	nodeLifecycleController  = "node-lifecycle-controller"
)

// Config configures Start. The zero value of all fields but Binaries is a
// cluster with DefaultControllers and simulated nodes, without a scheduler.
type Config struct {
	// Binaries to run, as Build returns them.
	Binaries Binaries
	// Dir is where the cluster's folder is made; empty: the system's temporary
	// folder. Sockets live in it, so its path must be shorter than about 70
	// bytes.
	Dir string
	// Keep leaves the folder, with all logs, in place when the cluster ends.
	Keep bool

	// Network, if set, is called before any component starts, and may start processes. It returns
	// the IPv4 address of this machine on which kube-apiserver listens and which it advertises to
	// pods. nil: it listens on 127.0.0.1, which only this machine's processes reach.
	Network func(*Cluster) (address string, err error)

	// EtcdData is a folder that Cluster.SaveEtcd made: the cluster starts with a
	// copy of its data. Empty: it starts without objects.
	EtcdData string

	APIServer         APIServerConfig
	ControllerManager ControllerManagerConfig
	// NoKwok disables kwok: no component updates the status of nodes and bound pods.
	NoKwok bool
}

// APIServerConfig configures kube-apiserver.
type APIServerConfig struct {
	// DisableAdmission lists admission plugins to disable. Benchmarks with bare pods disable
	// ServiceAccount. TaintNodesByCondition is always off without the node lifecycle
	// controller, which removes its taint.
	DisableAdmission []string
	// ExtraArgs are added last, so they win over the package's own flags.
	ExtraArgs []string
	// Env is added to the environment, as NAME=value.
	Env []string
}

// ControllerManagerConfig configures kube-controller-manager.
type ControllerManagerConfig struct {
	// Disabled leaves it out; Cluster.ControllerManager starts it later.
	Disabled bool
	// Controllers to run; nil: DefaultControllers.
	Controllers []string
	// QPS and Burst limit each controller's requests to the API server, per
	// second; 0: the binary's defaults, 20 and 30.
	QPS   float32
	Burst int
	// ExtraArgs are added last, so they win over the package's own flags.
	ExtraArgs []string
	// Env is added to the environment, as NAME=value.
	Env []string
}

// WithoutPVController returns the configuration without PVController.
func (m ControllerManagerConfig) WithoutPVController() ControllerManagerConfig {
	m.Controllers = slices.DeleteFunc(slices.Clone(m.controllers()), func(name string) bool { return name == PVController })
	if slices.Contains(m.Controllers, "*") {
		m.Controllers = append(m.Controllers, "-"+PVController)
	}
	return m
}

// complete fills in defaults and reports what cannot work.
func (c Config) complete() (Config, error) {
	if err := c.Binaries.check(); err != nil {
		return c, err
	}
	m := &c.ControllerManager
	m.Controllers = m.controllers()
	if len(m.Controllers) == 0 {
		return c, errors.New("no controllers to run: set ControllerManager.Disabled instead of an empty list of Controllers")
	}
	if m.QPS < 0 || m.Burst < 0 {
		return c, fmt.Errorf("ControllerManager.QPS (%v) and Burst (%d) must not be negative", m.QPS, m.Burst)
	}
	for _, name := range m.Controllers {
		if name == "" || strings.Contains(name, ",") {
			return c, fmt.Errorf("ControllerManager.Controllers: %q is not the name of one controller", name)
		}
	}
	return c, nil
}

// controllers are those that are to run.
func (m ControllerManagerConfig) controllers() []string {
	if m.Controllers == nil {
		return DefaultControllers
	}
	return m.Controllers
}

// Runs reports whether the named controller, one that is on by default, runs.
func (m ControllerManagerConfig) Runs(name string) bool {
	all := m.controllers()
	if m.Disabled || slices.Contains(all, "-"+name) {
		return false
	}
	return slices.Contains(all, "*") || slices.Contains(all, name)
}

// hasServiceAccounts reports whether each namespace gets a default service
// account, without which no pod is admitted.
func (c Config) hasServiceAccounts() bool {
	return c.ControllerManager.Runs(serviceAccountController)
}

// disabledAdmission lists the admission plugins that are off.
func (c Config) disabledAdmission() []string {
	off := slices.Clone(c.APIServer.DisableAdmission)
	if !c.ControllerManager.Runs(nodeLifecycleController) {
		off = append(off, "TaintNodesByCondition")
	}
	slices.Sort(off)
	return slices.Compact(off)
}
