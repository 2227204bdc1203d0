// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// SchedulerUser is the user that the default RBAC rules permit to schedule pods.
const SchedulerUser = "system:kube-scheduler"

// SchedulerOptions configures StartScheduler. The zero value is the stock
// kube-scheduler with its default profile.
type SchedulerOptions struct {
	// Name of the process in errors and of its log; empty: "kube-scheduler". It may be used again,
	// for a restart or for concurrent schedulers: from the second on, a number is appended.
	Name string
	// Binary is anything with kube-scheduler's command line; empty: the stock
	// kube-scheduler.
	Binary string
	// ConfigYAML is a KubeSchedulerConfiguration; empty: the defaults. Unless
	// it names one itself, clientConnection.kubeconfig is filled in.
	ConfigYAML []byte
	// User and Groups are the identity of its requests; empty: SchedulerUser.
	User   string
	Groups []string
	// LeaderElect leaves leader election to the configuration and its default,
	// which is on. Otherwise it is off.
	LeaderElect bool
	// ExtraArgs are added last, so they win over the package's own flags.
	ExtraArgs []string
}

// StartScheduler runs a scheduler on its own port, without waiting until it works: call
// WaitHealthy on the result. Any number may run at the same time. A scheduler ends with the
// cluster.
func (c *Cluster) StartScheduler(o SchedulerOptions) (*Process, error) {
	if o.Name == "" {
		o.Name = "kube-scheduler"
	}
	if o.Binary == "" {
		o.Binary = c.config.Binaries.Scheduler
	}
	if o.User == "" {
		o.User = SchedulerUser
	}
	id, err := c.identity(o.User, o.Groups...)
	if err != nil {
		return nil, err
	}
	port, err := c.reservePort(loopback)
	if err != nil {
		return nil, err
	}
	name := c.numbered(o.Name)
	config := c.folder.path(name + ".yaml")
	if err := writeSchedulerConfig(config, o.ConfigYAML, id.kubeconfig); err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", o.Name, err)
	}
	args := append(c.servingArgs(port), delegatedAuthArgs(id.kubeconfig)...)
	args = append(args, "--config="+config)
	if !o.LeaderElect {
		args = append(args, "--leader-elect=false")
	}
	return c.run(run{
		name: name, binary: o.Binary, args: append(args, o.ExtraArgs...),
		env: os.Environ(), port: port,
	})
}

// StartHealthyScheduler is StartScheduler and WaitHealthy in one.
func (c *Cluster) StartHealthyScheduler(ctx context.Context, o SchedulerOptions) (*Process, error) {
	p, err := c.StartScheduler(o)
	if err != nil {
		return nil, err
	}
	if err := p.WaitHealthy(ctx); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// numbered numbers the processes of one name from the second on.
func (c *Cluster) numbered(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	name = fileName(name)
	c.names[name]++
	if n := c.names[name]; n > 1 {
		return fmt.Sprintf("%s-%d", name, n)
	}
	return name
}

func writeSchedulerConfig(path string, given []byte, kubeconfig string) error {
	config := map[string]any{}
	if err := yaml.Unmarshal(given, &config); err != nil {
		return err
	}
	if len(config) == 0 {
		config["apiVersion"] = "kubescheduler.config.k8s.io/v1"
		config["kind"] = "KubeSchedulerConfiguration"
	}
	connection, ok := config["clientConnection"].(map[string]any)
	if !ok {
		connection = map[string]any{}
		config["clientConnection"] = connection
	}
	if connection["kubeconfig"] == nil {
		connection["kubeconfig"] = kubeconfig
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
