// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// manifests is the folder of the manifests that are shipped for the scheduler.
const manifests = "../../../manifests/scheduler"

// sample is how the sample of a second scheduler runs: its configuration,
// service account and rights. Each test has its own schedulerName. replace are
// pairs of old and new text of the configuration, all of which must be there.
func sample(e *fixture.Env, replace ...string) cluster.SchedulerOptions {
	e.T.Helper()
	apply(e, "direct-binding/role.yaml", "second/rbac.yaml")
	const account = "system:serviceaccount:kube-system:stowage-scheduler"
	return cluster.SchedulerOptions{
		Name:       "stowage-scheduler",
		Binary:     binary(e),
		ConfigYAML: configuration(e, replace...),
		User:       account,
		Groups:     []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
}

// configuration is the sample's, with pods of this test only.
func configuration(e *fixture.Env, replace ...string) []byte {
	e.T.Helper()
	data, err := os.ReadFile(filepath.Join(manifests, "second", "config.yaml"))
	if err != nil {
		e.T.Fatal(err)
	}
	text := string(data)
	replace = append(replace, "schedulerName: stowage-scheduler", "schedulerName: "+e.Name("scheduler"))
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			e.T.Fatalf("the sample configuration has no %q", replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return []byte(text)
}

// binary builds stowage-scheduler.
func binary(e *fixture.Env) string {
	e.T.Helper()
	path, err := cluster.BuildCommand(e.Context(), cluster.BuildOptions{Progress: e.T.Output()}, "stowage.dev/stowage/cmd/scheduler")
	if err != nil {
		e.T.Fatal(err)
	}
	return path
}

// startProcess runs a scheduler as a separate process, until the test ends.
func startProcess(e *fixture.Env, o cluster.SchedulerOptions) *cluster.Process {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), waitTimeout)
	defer cancel()
	p, err := e.Cluster.StartHealthyScheduler(ctx, o)
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() {
		if e.T.Failed() {
			showLog(e.T, p, e.Namespace)
		}
		if err := p.Kill(); err != nil {
			e.T.Error(err)
		}
	})
	return p
}

// showLog prints a process's log lines about a namespace, and its end.
func showLog(t testing.TB, p *cluster.Process, namespace string) {
	t.Helper()
	data, err := os.ReadFile(p.LogFile())
	if err != nil {
		t.Error(err)
		return
	}
	for line := range bytes.Lines(data) {
		if bytes.Contains(line, []byte(namespace)) {
			t.Logf("%s", line)
		}
	}
}

// apply creates objects of files below manifests, unless they exist.
func apply(e *fixture.Env, files ...string) {
	e.T.Helper()
	for _, file := range files {
		if err := e.Cluster.CreateFiles(e.Context(), filepath.Join(manifests, file)); err != nil {
			e.T.Fatal(err)
		}
	}
}
