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
// control plane start one with Options and NewOn, or share one by a Site.
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
	shared   *Site
	binaries realnode.Binaries
	keep     = flag.Bool("keep", false, "leave the cluster's folder, with all logs, in place")
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
	defer func() { err = errors.Join(err, stopSites(code != 0)) }()
	return m.Run(), nil
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

// Site is a cluster that some tests of a package share. The first of them starts it; Main stops
// it after the last test. Safe for concurrent use.
type Site struct {
	start   func() error // once
	cluster *realnode.Cluster
}

// sites are those that were made, which are package variables of tests.
var sites []*Site

// NewSite makes a Site. options are called when its cluster is started. It must be called for
// package variables, so that Main can stop the cluster.
func NewSite(options func() (Options, error)) *Site {
	s := &Site{}
	s.start = sync.OnceValue(func() error {
		o, err := options()
		if err == nil {
			s.cluster, err = start(o)
		}
		return err
	})
	sites = append(sites, s)
	return s
}

// New returns an Env on the site's cluster.
func (s *Site) New(t testing.TB) *Env {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal("this site did not start: ", err)
	}
	return newEnv(t, s.cluster)
}

// stopSites stops the clusters of all sites. With keep, their folders stay.
func stopSites(keep bool) error {
	var errs []error
	for _, s := range sites {
		if s.cluster != nil {
			errs = append(errs, stop(s.cluster, keep))
		}
	}
	return errors.Join(errs...)
}

// stop stops a cluster. With keep, its folder stays.
func stop(c *realnode.Cluster, keep bool) error {
	if keep {
		c.KeepFolder()
		fmt.Fprintln(os.Stderr, "The logs are in", c.Folder())
	}
	return c.Stop()
}
