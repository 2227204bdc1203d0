// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestRights: with a stock scheduler's rights the scheduler logs which are
// missing and leaves bindings to the PV controller; with those of the manifests
// it binds directly. In both cases none of its requests is forbidden.
func TestRights(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a"))
	e.CreatePVs(e.LocalPV("1", "a"), e.LocalPV("2", "a"), e.LocalPV("3", "a"))
	e.Use(e.Name("scheduler"))
	var pods []*v1.Pod
	place := func(p *cluster.Process, name string) {
		t.Helper()
		e.CreatePVC(e.PVC(name))
		pods = append(pods, e.CreatePod(e.Pod(name).PVC(name)))
		wantSettled(e, pods...)
		wantNothingForbidden(e, p)
	}
	stock := cluster.SchedulerOptions{Name: "stowage-scheduler", Binary: binary(e), ConfigYAML: configuration(e)}

	p := startProcess(e, stock)
	place(p, "stock-rights")
	wantMode(e, p, "PVController")
	for _, part := range []string{
		"bindingMode Direct is not allowed", "update persistentvolumes/status", "update persistentvolumeclaims/status",
	} {
		if !strings.Contains(logOf(e, p), part) {
			t.Errorf("%q is not in the log", part)
		}
	}
	within(e, p.Stop)

	apply(e, "direct-binding/role.yaml", "only/rbac.yaml")
	p = startProcess(e, stock)
	place(p, "granted")
	wantMode(e, p, "Direct")
	within(e, p.Stop)

	p = startProcess(e, sample(e))
	place(p, "second-scheduler")
	wantMode(e, p, "Direct")
}

// wantMode checks the scheduler's metrics: the mode in which it has bound, and
// the state of Direct.
func wantMode(e *fixture.Env, p *cluster.Process, mode string) {
	e.T.Helper()
	lines := metricsOf(e, p)
	disabled := "0"
	if mode != "Direct" {
		disabled = "1"
	}
	if line := "stowage_scheduler_direct_binding_disabled " + disabled; !slices.Contains(lines, line) {
		e.T.Errorf("metrics lack %q", line)
	}
	bound := fmt.Sprintf(`stowage_scheduler_bind_duration_seconds_count{mode="%s",outcome="success"}`, mode)
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, bound) }) {
		e.T.Errorf("metrics lack %q: nothing was bound in mode %s", bound, mode)
	}
}

// wantNothingForbidden checks all answers to the scheduler's requests.
func wantNothingForbidden(e *fixture.Env, p *cluster.Process) {
	e.T.Helper()
	for _, line := range metricsOf(e, p) {
		if strings.HasPrefix(line, "rest_client_requests_total") && strings.Contains(line, `code="403"`) {
			e.T.Error(line)
		}
	}
	for line := range strings.Lines(logOf(e, p)) {
		if strings.Contains(line, "forbidden") {
			e.T.Error(line)
		}
	}
}

func metricsOf(e *fixture.Env, p *cluster.Process) []string {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), e.Timeout)
	defer cancel()
	metrics, err := p.Get(ctx, "/metrics")
	if err != nil {
		e.T.Fatal(err)
	}
	return strings.Split(string(metrics), "\n")
}

func logOf(e *fixture.Env, p *cluster.Process) string {
	e.T.Helper()
	log, err := os.ReadFile(p.LogFile())
	if err != nil {
		e.T.Fatal(err)
	}
	return string(log)
}
