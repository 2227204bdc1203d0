// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"stowage.dev/stowage/test/deadline"
)

// CacheEnv names the environment variable that overrides where Build keeps its
// binaries.
const CacheEnv = "STOWAGE_CONTROLPLANE_DIR"

// Binaries are the paths of executables that Start runs. Build fills them in;
// single ones may be replaced.
type Binaries struct {
	// Minor is the version of Kubernetes, such as 1.37.
	Minor             string
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
	// Cached makes it an error if a binary of Kubernetes, etcd or kwok has to be built.
	Cached bool
	// Args are further arguments for "go build" of Kubernetes, etcd and kwok. Binaries that were
	// built with other arguments are not used.
	Args []string
}

// Build builds the control plane's binaries, unless they exist already: those of the version that
// KubeEnv selects, from the sources that a nested module of hack/controlplane pins. They are cached
// in the user's cache folder (or $STOWAGE_CONTROLPLANE_DIR) by the hash of all build inputs, so each
// version is built once per machine, however many clones request it concurrently.
func Build(ctx context.Context, o BuildOptions) (b Binaries, err error) {
	if b.Minor, err = buildMissing(ctx, o, b.targets(), b.kwokTargets()); err != nil {
		return Binaries{}, fmt.Errorf("build the control plane: %w", err)
	}
	return b, nil
}

// BuildNode makes the binaries of real nodes as Build makes the control plane's,
// next to those. Most callers of Build have no use for them.
func BuildNode(ctx context.Context, o BuildOptions) (b NodeBinaries, err error) {
	_, err = buildMissing(ctx, o, []target{
		{"kubelet", "k8s.io/kubernetes/cmd/kubelet", &b.Kubelet},
		{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", &b.KubeProxy},
		{"kubectl", "k8s.io/kubernetes/cmd/kubectl", &b.Kubectl},
	}, nil)
	if err != nil {
		return NodeBinaries{}, fmt.Errorf("build the programs of real nodes: %w", err)
	}
	return b, nil
}

// buildMissing sets the paths of targets of Kubernetes and kwok, builds those that do not exist, and
// returns the selected minor version.
func buildMissing(ctx context.Context, o BuildOptions, ofKubernetes, ofKwok []target) (minor string, err error) {
	s, err := findSources()
	if err != nil {
		return "", err
	}
	kubernetes, err1 := s.kubernetes()
	kwok, err2 := s.kwok()
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if err := kubernetes.with(o.Args).build(ctx, o, ofKubernetes); err != nil {
		return "", err
	}
	return s.minor, kwok.with(o.Args).build(ctx, o, ofKwok)
}

// target is a command to build.
type target struct {
	name, pkg string
	path      *string // receives the binary's path
}

var majorVersion = regexp.MustCompile(`/v\d+$`)

// executable is the file that the go command makes of the package.
func (t target) executable() string { return path.Base(majorVersion.ReplaceAllString(t.pkg, "")) }

// names are those of targets, for messages.
func names(targets []target) string {
	var all []string
	for _, t := range targets {
		all = append(all, t.name)
	}
	return strings.Join(all, ", ")
}

func (b *Binaries) targets() []target {
	return []target{
		{"etcd", "go.etcd.io/etcd/server/v3", &b.Etcd},
		{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", &b.APIServer},
		{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", &b.ControllerManager},
		{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", &b.Scheduler},
	}
}

func (b *Binaries) kwokTargets() []target {
	return []target{{"kwok", "sigs.k8s.io/kwok/cmd/kwok", &b.Kwok}}
}

// build sets the paths of all targets and builds those that do not exist.
func (m module) build(ctx context.Context, o BuildOptions, targets []target) error {
	if len(m.locate(targets)) == 0 {
		return nil
	}
	if o.Cached {
		return fmt.Errorf("%s %s is not complete in %s", m.product, m.version, m.cache)
	}
	o.Progress = cmp.Or(o.Progress, io.Discard)
	unlock, err := lockFolder(ctx, m.cache, func() {
		fmt.Fprintf(o.Progress, "Waiting for another process that builds %s in %s\n", m.product, m.cache)
	})
	if err != nil {
		return err
	}
	defer unlock()
	missing := m.locate(targets) // without those that another process has built meanwhile
	if len(missing) == 0 {
		return nil
	}
	begin := time.Now()
	fmt.Fprintf(o.Progress, "Building %s %s into %s: %s\n", m.product, m.version, m.cache, names(missing))
	job := buildJob{module: m.dir, folder: m.cache, targets: missing, args: slices.Concat([]string{"-ldflags", m.ldflags}, o.Args), progress: o.Progress}
	if err := job.build(ctx); err != nil {
		return err
	}
	fmt.Fprintf(o.Progress, "Built %s in %s\n", m.product, time.Since(begin).Round(time.Second))
	return nil
}

// schedulerCommand is the command that contains a kube-scheduler.
const schedulerCommand = productModule + "/cmd/scheduler"

// BuildCommand builds a command of this repository, such as
// "stowage.dev/stowage/cmd/scheduler", with further arguments for "go build",
// such as "-race", and returns the binary's path. The scheduler is that of the version that
// KubeEnv selects; of the others there is one build for all versions. The binary stays in the
// cache folder, by clone and arguments; an up-to-date one is not linked again.
func BuildCommand(ctx context.Context, o BuildOptions, pkg string, goArgs ...string) (_ string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("build %s: %w", pkg, err)
		}
	}()
	src, err := findSources()
	if err != nil {
		return "", err
	}
	o.Progress = cmp.Or(o.Progress, io.Discard)
	if pkg == schedulerCommand {
		goArgs = append([]string{"-modfile=" + src.modFile}, goArgs...)
	}
	key := hash([]byte(src.root), []byte(strings.Join(goArgs, "\x00")))
	dir := filepath.Join(src.cache, "commands-"+key)
	unlock, err := lockFolder(ctx, dir, func() {})
	if err != nil {
		return "", err
	}
	defer unlock()
	out := filepath.Join(dir, path.Base(pkg))
	job := buildJob{module: src.root, folder: dir, targets: []target{{path.Base(pkg), pkg, &out}}, args: goArgs, progress: o.Progress}
	if _, err := os.Stat(out); err == nil {
		return out, job.run(ctx, dir) // the go command leaves an up-to-date file alone
	}
	return out, job.build(ctx)
}

const (
	// lockRetry is how often a lock that another process holds is tried again:
	// waiting for a file lock cannot be interrupted.
	lockRetry = 200 * time.Millisecond
	// unfinished is the folder, beside a binary, that it is built in.
	unfinished = ".building"
)

// buildJob are commands of a module, built by one run of the go command, which compiles what they
// share once and links one while it compiles the others.
type buildJob struct {
	module   string // its folder
	folder   string // of the binaries
	targets  []target
	args     []string // for "go build"
	progress io.Writer
}

// build builds in a folder next to the binaries and moves each there once all are complete, so that
// a binary that exists is a whole one. The caller holds the lock of the folder.
func (j buildJob) build(ctx context.Context) error {
	dir := filepath.Join(j.folder, unfinished)
	if err := os.RemoveAll(dir); err != nil { // of a build that was killed
		return err
	}
	defer os.RemoveAll(dir)
	if err := j.run(ctx, dir); err != nil {
		return err
	}
	for _, t := range j.targets {
		if err := os.Rename(filepath.Join(dir, t.executable()), *t.path); err != nil {
			return err
		}
	}
	return nil
}

// run runs the go command, which makes the folder, and hack/progress.sh, which prints its progress.
func (j buildJob) run(ctx context.Context, folder string) error {
	args := slices.Clone(j.args)
	for _, t := range j.targets {
		args = append(args, t.pkg)
	}
	root, err := findRoot()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-v", "-buildvcs=false", "-o", folder + "/"}, args)...)
	build.Dir, build.Env = j.module, j.environment()
	// Interrupted rather than killed, the go command ends its compilers and
	// removes its temporary files.
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) }
	build.WaitDelay = deadline.Wait() / 6
	// It ends with the output that it reads.
	progress := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(root, "hack", "progress.sh"), args...)
	progress.Dir, progress.Env = build.Dir, build.Env
	var failures bytes.Buffer
	progress.Stdout, progress.Stderr = j.progress, &failures
	if progress.Stdin, err = build.StderrPipe(); err != nil {
		return err
	}
	if err := progress.Start(); err != nil {
		return err
	}
	if err := build.Start(); err != nil {
		return fmt.Errorf("build %s: %w: is Go installed and on PATH?", names(j.targets), errors.Join(err, progress.Wait()))
	}
	if err := errors.Join(build.Wait(), progress.Wait()); err != nil {
		return fmt.Errorf("build %s: %w\n%s", names(j.targets), errors.Join(err, ctx.Err()), failures.Bytes())
	}
	return nil
}

// environment is that of this process, without variables that change the build: cross-compilation,
// workspaces and flags such as -mod=vendor. Most compilers end before it is worth collecting their
// garbage: unless the caller sets that, they do not, and take a seventh less time.
func (j buildJob) environment() []string {
	caller := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GOOS", "GOARCH", "GOFLAGS", "GOWORK", "PWD"}, name)
	})
	return slices.Concat([]string{"GOGC=off", "GOMEMLIMIT=512MiB"}, caller, []string{"GOWORK=off", "PWD=" + j.module})
}

// lockFolder makes a folder, locks it exclusively, and returns the function that unlocks it. The
// end of the process unlocks it too. waiting is called once if another process holds the lock.
func lockFolder(ctx context.Context, dir string, waiting func()) (func(), error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockRetry)
	defer ticker.Stop()
	for waited := false; ; waited = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if !waited {
			waiting()
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for the process that holds %s: %w", f.Name(), ctx.Err())
		case <-ticker.C:
		}
	}
}
