// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
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
	// Supervisor is this package's own parent process for the others.
	Supervisor string
}

// check reports binaries that are not set.
func (b Binaries) check() error {
	for name, file := range map[string]string{
		"Etcd": b.Etcd, "APIServer": b.APIServer, "ControllerManager": b.ControllerManager,
		"Scheduler": b.Scheduler, "Kwok": b.Kwok, "Supervisor": b.Supervisor,
	} {
		if file == "" {
			return fmt.Errorf("Config.Binaries.%s is not set: use what Build returns", name)
		}
	}
	return nil
}

// BuildOptions configures Build.
type BuildOptions struct {
	// Progress receives one line per slow step; nil discards them.
	Progress io.Writer
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

// Build builds the control plane's binaries, unless they exist already, from the sources that
// the nested module hack/controlplane pins. They are cached in the user's cache folder (or
// $STOWAGE_CONTROLPLANE_DIR) by the hash of all build inputs, so each version is built once
// per machine, however many clones request it concurrently.
func Build(ctx context.Context, o BuildOptions) (Binaries, error) {
	b, err := build(ctx, o)
	if err != nil {
		return Binaries{}, fmt.Errorf("build the control plane: %w", err)
	}
	return b, nil
}

func build(ctx context.Context, o BuildOptions) (Binaries, error) {
	src, err := findSources(ctx)
	if err != nil {
		return Binaries{}, err
	}
	var b Binaries
	err = buildMissing(ctx, src, o, func() []target { return b.locate(src) })
	return b, err
}

// buildMissing builds the binaries that missing lists.
func buildMissing(ctx context.Context, src sources, o BuildOptions, missing func() []target) error {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if len(missing()) == 0 {
		return nil
	}
	if err := os.MkdirAll(src.cache, 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, filepath.Join(src.cache, "lock"), func() {
		fmt.Fprintf(o.Progress, "Waiting for another process that builds the control plane in %s\n", src.cache)
	})
	if err != nil {
		return err
	}
	defer unlock()
	// Another process may have built them meanwhile.
	return buildAll(ctx, src, missing(), o.Progress)
}

// locate sets all paths and returns the targets whose binary is missing.
func (b *Binaries) locate(src sources) []target {
	return locate(src, append(b.targets(), target{"supervisor-" + src.supervisorKey, supervisorPackage, &b.Supervisor}))
}

func locate(src sources, targets []target) []target {
	var missing []target
	for _, t := range targets {
		*t.path = filepath.Join(src.cache, t.name)
		if _, err := os.Stat(*t.path); err != nil {
			missing = append(missing, t)
		}
	}
	return missing
}

func buildAll(ctx context.Context, src sources, targets []target, progress io.Writer) error {
	begin := time.Now()
	if len(targets) > 1 {
		fmt.Fprintf(progress, "Building Kubernetes %s into %s; the first build takes about 8 minutes on 2 cores\n", src.kubernetes, src.cache)
	}
	for i, t := range targets {
		module := src.controlplane
		if t.pkg == supervisorPackage {
			module = src.root
		}
		label := fmt.Sprintf("%s (%d of %d)", t.name, i+1, len(targets))
		if len(targets) > 1 {
			fmt.Fprintf(progress, "  building %s\n", label)
		}
		if err := goBuild(ctx, buildJob{module: module, pkg: t.pkg, out: *t.path, args: []string{"-ldflags", src.ldflags}, label: label, progress: progress}); err != nil {
			return err
		}
	}
	if len(targets) > 1 {
		fmt.Fprintf(progress, "Built the control plane in %s\n", time.Since(begin).Round(time.Second))
	}
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
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	src, err := findSources(ctx)
	if err != nil {
		return "", err
	}
	key := hash([]byte(src.root), []byte(strings.Join(goArgs, "\x00")))
	dir := filepath.Join(filepath.Dir(src.cache), "commands-"+key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"), func() {})
	if err != nil {
		return "", err
	}
	defer unlock()
	name := path.Base(pkg)
	out := filepath.Join(dir, name)
	return out, goBuild(ctx, buildJob{module: src.root, pkg: pkg, out: out, args: goArgs, label: name, progress: o.Progress})
}

// errNoCache explains what to do without a user's cache folder.
var errNoCache = errors.New("no folder to keep binaries in: set $" + CacheEnv)

// cacheRoot is the folder that holds one folder per version.
func cacheRoot() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w (%w)", errNoCache, err)
	}
	return filepath.Join(dir, "stowage", "controlplane"), nil
}

// NodeBinaries are the paths of the programs of real nodes, and of kubectl. They are in
// one folder.
type NodeBinaries struct {
	Kubelet   string
	KubeProxy string
	Kubectl   string
}

// BuildNode makes the binaries of real nodes as Build makes the control plane's,
// next to those. Most callers of Build have no use for them.
func BuildNode(ctx context.Context, o BuildOptions) (NodeBinaries, error) {
	src, err := findSources(ctx)
	if err != nil {
		return NodeBinaries{}, fmt.Errorf("build kubelet: %w", err)
	}
	var b NodeBinaries
	targets := []target{
		{"kubelet", "k8s.io/kubernetes/cmd/kubelet", &b.Kubelet},
		{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", &b.KubeProxy},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl", &b.Kubectl},
	}
	if err := buildMissing(ctx, src, o, func() []target { return locate(src, targets) }); err != nil {
		return NodeBinaries{}, fmt.Errorf("build kubelet: %w", err)
	}
	return b, nil
}
