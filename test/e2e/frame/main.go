// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package frame lets end-to-end tests share a cluster of real nodes (package realnode). Tests
// have their own nodes and namespace on it:
//
//	func TestMain(m *testing.M) { os.Exit(frame.Main(m, frame.Options{})) }
//
//	func TestWrites(t *testing.T) {
//		e := frame.New(t)
//		nodes := e.AddNodes(frame.Node("a", realnode.Disk{Kind: realnode.Ext4, Path: "/mnt/disks/fast/1", Size: 64 << 20}))
//		e.Create(pv, pvc, pod)        // typed objects; those in no namespace are named by e.Name
//		e.WaitPod("writer", "done", frame.Succeeded)
//		out := e.Exec("reader", "cat", "/data/word")
//		nodes[0].Kill()
//	}
//
// A test's objects and nodes are removed after it. Every wait is for an event and ends
// with the test's deadline (Env.Context), which fails the test and logs Dump. Pods run
// on the Env's own nodes with the node selector of Env.OnNode. Tests that need another
// control plane start one with Options and NewOn, or share one by a Site, which stops with its last test.
// Instead of t.Parallel they call Parallel, so that few clusters run at a time.
//
// Tests need root and the Debian packages that `go run ./hack/requirements -packages e2e` prints. -keep leaves the cluster's
// folder, with all logs, in place.
package frame

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/cluster/realnode"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/requirements"
)

// buildTimeout is how long building may take, which the first time is most of it, startTimeout
// how long a control plane may, and beginTimeout how long Options.Begin.
var (
	buildTimeout = 40 * deadline.Wait()
	startTimeout = 3 * deadline.Wait()
	beginTimeout = 5 * deadline.Wait()
)

// Options say what cluster the tests of a package have.
type Options struct {
	// Images are archives that all nodes have.
	Images []string
	// Config changes the cluster's configuration, if it is set.
	Config func(*realnode.Config)
	// Begin is called once the control plane runs, if it is set, to apply manifests, say.
	Begin func(context.Context, *realnode.Cluster) error
}

// shared is what Main makes for all tests.
var (
	shared *Site
	// endShared stops it, unless a test uses it.
	endShared func() error
	parallel  *turns
	binaries  realnode.Binaries
	keep      = flag.Bool("keep", false, "leave the cluster's folder, with all logs, in place")
)

// Main runs the tests of a package, which share a cluster with options unless they use another
// one, and returns the process's exit code. The first test that needs a cluster starts it.
func Main(m *testing.M, o Options) int {
	code, err := run(m, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "end-to-end tests:", err)
		return max(code, 1)
	}
	return code
}

func run(m *testing.M, o Options) (code int, err error) {
	flag.Parse()
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run(), nil
	}
	if err := requirements.Missing(requirements.E2E); err != nil {
		return 1, err
	}
	building, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	if binaries, err = realnode.Build(building, cluster.BuildOptions{Progress: os.Stderr}); err != nil {
		return 1, err
	}
	shared = NewSite(func() (Options, error) { return o, nil })
	shared.tests = 1 // for all of them
	endShared = sync.OnceValue(func() error { return shared.release(false) })
	if parallel, err = newTurns(); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, endShared()
}

// Binaries are what clusters run, once Main has built them.
func Binaries() realnode.Binaries { return binaries }

// start starts a cluster with options.
func start(o Options) (*realnode.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	config := realnode.Config{Binaries: binaries, Images: o.Images}
	config.Cluster.Keep = *keep
	if o.Config != nil {
		o.Config(&config)
	}
	c, err := realnode.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	if o.Begin == nil {
		return c, nil
	}
	ctx, cancel = context.WithTimeout(context.Background(), beginTimeout)
	defer cancel()
	if err := o.Begin(ctx, c); err != nil {
		return nil, errors.Join(fmt.Errorf("begin: %w", err), stop(c, true))
	}
	return c, nil
}

// Site is a cluster that some tests of a package share. The first of them starts it, and it is stopped
// when the last has ended. Safe for concurrent use.
type Site struct {
	options func() (Options, error)

	mu      sync.Mutex
	cluster *realnode.Cluster // nil unless it runs
	err     error             // of the start, which is not repeated
	tests   int               // that use it, or will
	keep    bool              // a test failed
}

// NewSite makes a Site. options are called when its cluster is started.
func NewSite(options func() (Options, error)) *Site { return &Site{options: options} }

// Parallel is t.Parallel for a test that has a cluster of its own. It returns when it is the test's turn.
func Parallel(t *testing.T) {
	t.Helper()
	wait(t)
	parallel.take(t, nil, false)
}

// Parallel is t.Parallel for a test that uses the site. It returns when it is the test's turn. A site
// whose tests all call it, or Group, is not stopped before the last of them.
func (s *Site) Parallel(t *testing.T) {
	t.Helper()
	s.Group(t)
	parallel.take(t, s, false)
}

// ParallelFirst is Parallel for a test that takes longer than others, before which it gets its turn.
func (s *Site) ParallelFirst(t *testing.T) {
	t.Helper()
	s.Group(t)
	parallel.take(t, s, true)
}

// Group is Parallel for a test that does nothing but run subtests that call Parallel.
func (s *Site) Group(t *testing.T) {
	t.Helper()
	s.reserve(t)
	wait(t)
}

// wait returns when the tests have ended that run one after the other. They have the cluster that Main
// shares, which is stopped then.
func wait(t *testing.T) {
	t.Helper()
	t.Parallel()
	if err := endShared(); err != nil {
		t.Error("stop the shared cluster: ", err)
	}
}

// New returns an Env on the site's cluster.
func (s *Site) New(t testing.TB) *Env {
	t.Helper()
	s.reserve(t)
	c, err := s.started()
	if err != nil {
		t.Fatal("this site did not start: ", err)
	}
	return newEnv(t, c)
}

// reserve keeps the cluster until the test has ended.
func (s *Site) reserve(t testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tests++
	t.Cleanup(func() {
		if err := s.release(t.Failed()); err != nil {
			t.Error(err)
		}
	})
}

// release stops the cluster after its last test. With keep, its folder stays.
func (s *Site) release(keep bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tests--
	s.keep = s.keep || keep
	if s.tests > 0 || s.cluster == nil {
		return nil
	}
	c := s.cluster
	s.cluster = nil
	return stop(c, s.keep)
}

func (s *Site) started() (*realnode.Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil && s.err == nil {
		var o Options
		if o, s.err = s.options(); s.err == nil {
			s.cluster, s.err = start(o)
		}
	}
	return s.cluster, s.err
}

// stop stops a cluster. With keep, its folder stays.
func stop(c *realnode.Cluster, keep bool) error {
	if keep {
		c.KeepFolder()
		fmt.Fprintln(os.Stderr, "The logs are in", c.Folder())
	}
	return c.Stop()
}
