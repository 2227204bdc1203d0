// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests_test tests the manifests and the Helm chart made of them on a real API
// server: every object passes strict validation, the chart renders the manifests, each of its
// values works, pods are admitted where they should be, an installation can be upgraded, and an
// uninstall removes it.
//
// Monitors and rules are of kinds of the Prometheus operator, whose definitions are installed;
// hack/monitoring tests these with Prometheus' own code.
package manifests_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/dynamic"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/deadline"
)

var (
	// startTimeout bounds builds and the start of a cluster. Cold builds of the
	// control plane and of Helm are most of it.
	startTimeout = 45 * deadline.Wait()
	// waitTimeout bounds a single wait on a machine with other load.
	waitTimeout = 3 * deadline.Wait()
)

// What TestMain makes for all tests.
var (
	binaries cluster.Binaries
	shared   *cluster.Cluster
	admin    dynamic.Interface
	tools    toolPaths
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run()
	}
	code, err := onCluster(m.Run)
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration tests:", err)
		return max(code, 1)
	}
	return code
}

// onCluster runs the tests with the tools built and a cluster on which the default
// overlay is applied, without nodes.
func onCluster(tests func() int) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if tools, err = buildTools(ctx); err != nil {
		return 1, err
	}
	if binaries, err = cluster.Build(ctx, cluster.BuildOptions{Progress: os.Stderr}); err != nil {
		return 1, err
	}
	shared, err = cluster.Start(ctx, cluster.Config{
		Binaries: binaries, NoKwok: true,
		ControllerManager: cluster.ControllerManagerConfig{Controllers: []string{"serviceaccount-controller"}},
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, shared.Stop()) }()
	if admin, err = dynamic.NewForConfig(shared.RESTConfig()); err != nil {
		return 1, err
	}
	return tests(), nil
}
