// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "os"

// ProcessOptions configures Cluster.StartProcess.
type ProcessOptions struct {
	// Name is what errors and the log file call it.
	Name string
	// Binary is the path of an executable.
	Binary string
	Args   []string
	// Env is added to a small part of the caller's environment, as NAME=value.
	Env []string
	// HealthURL is https:// and a host and port whose /healthz shows an administrator that the
	// process works; empty: the process counts as healthy once it runs.
	HealthURL string
	// Namespaces are flags of Linux's clone(2): the process gets new namespaces of
	// these kinds. The end of the first process of a PID namespace is the end of
	// all in it.
	Namespaces uintptr
	// Beside is the PID of a process whose PID namespace it joins; 0 for none.
	Beside int
}

// StartProcess runs a process that ends with the cluster, without
// waiting until it works.
func (c *Cluster) StartProcess(o ProcessOptions) (*Process, error) {
	r := run{
		name: fileName(o.Name), binary: o.Binary, args: o.Args, env: stockEnv(o.Env),
		healthPath: "/healthz", namespaces: o.Namespaces, beside: o.Beside,
	}
	if o.HealthURL != "" {
		r.base = endpoint{client: c.http, url: o.HealthURL}
	}
	return c.run(r)
}

// NewComponent makes a component that start runs, which may call StartProcess. It
// does not run yet.
func NewComponent(name string, start func() (*Process, error)) *Component {
	return &Component{name: name, start: start}
}

// Prune has a file, or a folder and those in it, removed when the cluster has
// ended, also when the process that started it is killed. Folders are meant to be
// control groups: files in them are not removed.
func (c *Cluster) Prune(path string) error { return c.supervisor.Prune(path) }

// StartCommand runs any program as a part of the cluster: it ends with the cluster, and its
// unexpected end is reported like that of a component. name may be used again; args and env
// (NAME=value) are the program's; env extends the caller's environment. Its working folder is
// the cluster's.
func (c *Cluster) StartCommand(name, binary string, args, env []string) (*Process, error) {
	return c.run(run{name: c.numbered(name), binary: binary, args: args, env: append(os.Environ(), env...)})
}
