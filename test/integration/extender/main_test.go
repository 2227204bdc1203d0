// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extender_test runs a stock kube-scheduler, as built from Kubernetes, with
// stowage-extender over TLS, both as separate processes and with the shipped
// configuration and rights of manifests/extender.
package extender_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
	"stowage.dev/stowage/test/integration/rights"
)

// shared are the deployments that tests have in common: one for each mode, and one
// whose scheduler sends whole nodes to the first one's extender.
var shared struct{ full, advisory, whole *deployment }

// audit fails the tests if the manifests grant what no test has the extender use.
var audit = rights.Audit{
	User:  "system:serviceaccount:kube-system:stowage-extender",
	Files: []string{filepath.Join(manifests, "base/rbac.yaml"), filepath.Join(manifests, "full/rbac.yaml")},
	// For a selected node that was deleted, for a pod that informers have not shown, for failing
	// writes, and for a phase that the PV controller does not set within ten seconds; unit tests of
	// the binder cover them (TestPhaseIsLeftToThePVController).
	Rare: []string{
		`get nodes (API group "")`, `get pods (API group "")`,
		`get persistentvolumes (API group "")`, `get persistentvolumeclaims (API group "")`,
		`update persistentvolumes/status (API group "")`,
	},
}

func TestMain(m *testing.M) { os.Exit(audit.Exit(fixture.MainOn(m, config, begin))) }

// config gives the PV controller its default resync period. At each resync it
// writes an event about each pending claim, and here hundreds are; none is immediate.
func config() cluster.Config {
	c := audit.Config()
	c.ControllerManager.ExtraArgs = nil
	c.APIServer.ExtraArgs = append(c.APIServer.ExtraArgs, fixture.BetaPolicies()...)
	return c
}

// begin starts both modes on the package's cluster.
func begin(ctx context.Context, c *cluster.Cluster) (stop func(), err error) {
	if err := prepare(ctx, c); err != nil {
		return nil, err
	}
	var begun []*deployment
	stop = func() {
		for _, d := range begun {
			d.stop()
		}
	}
	add := func(p plan) *deployment {
		if err != nil {
			return nil
		}
		var d *deployment
		if d, err = deploy(ctx, c, p); err == nil {
			begun = append(begun, d)
		}
		return d
	}
	shared.full = add(plan{mode: "full", name: "extender-full", also: []string{"extender-whole"}})
	shared.advisory = add(plan{mode: "advisory", name: "extender-advisory", account: reader})
	shared.whole = add(plan{mode: "full", name: "extender-whole", of: shared.full, scheduler: []string{"nodeCacheCapable: true\n", "nodeCacheCapable: false\n"}})
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// modes are the schedulerNames of the deployments, by mode.
func full(e *fixture.Env) *fixture.Env     { return using(e, shared.full) }
func advisory(e *fixture.Env) *fixture.Env { return using(e, shared.advisory) }
func whole(e *fixture.Env) *fixture.Env    { return using(e, shared.whole) }

func using(e *fixture.Env, d *deployment) *fixture.Env {
	e.T.Helper()
	e.Use(d.name)
	e.Timeout = max(e.Timeout, waitTimeout)
	e.T.Cleanup(func() {
		if err := d.panicked(); err != nil {
			e.T.Error(err)
		}
		if e.T.Failed() {
			d.show(e.T, e.Namespace)
		}
	})
	return e
}

var errNotMarked = errors.New("pods with claims are not marked")
