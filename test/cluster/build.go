// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// CacheEnv names the environment variable that overrides where Build keeps its
// binaries.
const CacheEnv = "STOWAGE_CONTROLPLANE_DIR"

// Binaries are the paths of executables that Start runs. Build fills them in;
// single ones may be replaced.
type Binaries struct {
	Etcd              string
	APIServer         string
	ControllerManager string
	// Scheduler is the stock kube-scheduler.
	Scheduler string
	Kwok      string
}

// check reports binaries that are not set.
func (b Binaries) check() error {
	for name, file := range map[string]string{
		"Etcd": b.Etcd, "APIServer": b.APIServer, "ControllerManager": b.ControllerManager,
		"Scheduler": b.Scheduler, "Kwok": b.Kwok,
	} {
		if file == "" {
			return fmt.Errorf("Config.Binaries.%s is not set: use what Build returns", name)
		}
	}
	return nil
}

// NodeBinaries are the paths of the programs of real nodes, and of kubectl. They are in
// one folder.
type NodeBinaries struct {
	Kubelet   string
	KubeProxy string
	Kubectl   string
}

// BuildOptions configures Build.
type BuildOptions struct {
	// Progress receives one line per slow step; nil discards them.
	Progress io.Writer
}

// Build builds the control plane's binaries, unless they exist already, from the sources that
// the nested module hack/controlplane pins. They are cached in the user's cache folder (or
// $STOWAGE_CONTROLPLANE_DIR) by the hash of all build inputs, so each version is built once
// per machine, however many clones request it concurrently.
func Build(ctx context.Context, o BuildOptions) (Binaries, error) {
	var b Binaries
	if err := buildMissing(ctx, o, b.targets()); err != nil {
		return Binaries{}, fmt.Errorf("build the control plane: %w", err)
	}
	return b, nil
}

// BuildNode makes the binaries of real nodes as Build makes the control plane's,
// next to those. Most callers of Build have no use for them.
func BuildNode(ctx context.Context, o BuildOptions) (NodeBinaries, error) {
	var b NodeBinaries
	err := buildMissing(ctx, o, []target{
		{"kubelet", "k8s.io/kubernetes/cmd/kubelet", &b.Kubelet},
		{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", &b.KubeProxy},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl", &b.Kubectl},
	})
	if err != nil {
		return NodeBinaries{}, fmt.Errorf("build the programs of real nodes: %w", err)
	}
	return b, nil
}

// target is a command to build.
type target struct {
	name, pkg string
	path      *string // receives the binary's path
}

func (b *Binaries) targets() []target {
	return []target{
		{"etcd", "go.etcd.io/etcd/server/v3", &b.Etcd},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", &b.APIServer},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", &b.ControllerManager},
		{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", &b.Scheduler},
		{"kwok", "sigs.k8s.io/kwok/cmd/kwok", &b.Kwok},
	}
}

// buildMissing sets the paths of all targets and builds those that do not exist.
func buildMissing(ctx context.Context, o BuildOptions, targets []target) error {
	src, err := findSources()
	if err != nil {
		return err
	}
	if len(src.locate(targets)) == 0 {
		return nil
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	unlock, err := lockFolder(ctx, src.cache, func() {
		fmt.Fprintf(o.Progress, "Waiting for another process that builds the control plane in %s\n", src.cache)
	})
	if err != nil {
		return err
	}
	defer unlock()
	missing := src.locate(targets) // without those that another process has built meanwhile
	if len(missing) == 0 {
		return nil
	}
	begin := time.Now()
	fmt.Fprintf(o.Progress, "Building Kubernetes %s into %s; the first build takes about 8 minutes on 2 cores\n", src.kubernetes, src.cache)
	for i, t := range missing {
		label := fmt.Sprintf("%s (%d of %d)", t.name, i+1, len(missing))
		fmt.Fprintf(o.Progress, "  building %s\n", label)
		job := buildJob{
			module: src.controlplane, pkg: t.pkg, out: *t.path, args: []string{"-ldflags", src.ldflags},
			label: label, progress: o.Progress,
		}
		if err := job.build(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Progress, "Built the control plane in %s\n", time.Since(begin).Round(time.Second))
	return nil
}

// BuildCommand builds a command of this repository, such as
// "stowage.dev/stowage/cmd/scheduler", with further arguments for "go build",
// such as "-race", and returns the binary's path. It stays in the cache folder,
// by clone and arguments; an up-to-date one is not linked again.
func BuildCommand(ctx context.Context, o BuildOptions, pkg string, goArgs ...string) (string, error) {
	out, err := buildCommand(ctx, o, pkg, goArgs)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	return out, nil
}

func buildCommand(ctx context.Context, o BuildOptions, pkg string, goArgs []string) (string, error) {
	src, err := findSources()
	if err != nil {
		return "", err
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	key := hash([]byte(src.root), []byte(strings.Join(goArgs, "\x00")))
	dir := filepath.Join(filepath.Dir(src.cache), "commands-"+key)
	unlock, err := lockFolder(ctx, dir, func() {})
	if err != nil {
		return "", err
	}
	defer unlock()
	name := path.Base(pkg)
	out := filepath.Join(dir, name)
	job := buildJob{module: src.root, pkg: pkg, out: out, args: goArgs, label: name, progress: o.Progress}
	if _, err := os.Stat(out); err == nil {
		return out, job.run(ctx, out) // the go command leaves an up-to-date file alone
	}
	return out, job.build(ctx)
}
