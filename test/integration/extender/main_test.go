// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extender_test has a stock kube-scheduler, as built from Kubernetes, ask
// stowage-extender over TLS, both in processes of their own and with the
// configuration and the rights that are shipped under manifests/extender.
package extender_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// shared are the deployments that tests have in common, one for each mode.
var shared struct{ full, advisory *deployment }

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, begin)) }

// begin starts both modes on the package's cluster.
func begin(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	if err := prepare(ctx, c); err != nil {
		return nil, err
	}
	stop = func() {
		for _, d := range []*deployment{shared.full, shared.advisory} {
			if d != nil {
				d.stop()
			}
		}
	}
	if shared.full, err = deploy(ctx, c, plan{mode: "full", name: "extender-full"}); err == nil {
		shared.advisory, err = deploy(ctx, c, plan{mode: "advisory", name: "extender-advisory"})
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// modes are the schedulerNames of the deployments, by mode.
func full(e *fixture.Env) *fixture.Env     { return using(e, shared.full) }
func advisory(e *fixture.Env) *fixture.Env { return using(e, shared.advisory) }

func using(e *fixture.Env, d *deployment) *fixture.Env {
	e.T.Helper()
	e.Use(d.name)
	e.T.Cleanup(func() {
		if e.T.Failed() {
			d.show(e.T, e.Namespace)
		}
	})
	return e
}

var errNotMarked = errors.New("pods with claims are not marked")
