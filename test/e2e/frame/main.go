// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package frame

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
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
		c.KeepFolder()
		return nil, errors.Join(fmt.Errorf("begin: %w; the logs are in %s", err, c.Folder()), c.Stop())
	}
	return c, nil
}
