// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// The minor versions of Kubernetes that TestClusterUpgrade begins and ends with.
const olderKubernetes, newerKubernetes = "1.36", "1.37"

// TestClusterUpgrade upgrades a cluster under load in the order of Kubernetes: etcd, the API
// server, the controller manager, and last the scheduler. Each scheduler is a build for its minor
// version. Until the API server is upgraded, the newer scheduler refuses to start; afterwards the older
// one schedules on. Every pod gets its volumes, and each claim one.
func TestClusterUpgrade(t *testing.T) {
	campaign.Begin(t)
	if !campaign.Scale(false, true) || os.Getenv(cluster.KubeEnv) != olderKubernetes {
		t.Skipf("needs two control planes: make soak KUBE=%s RUN=faults.TestClusterUpgrade", olderKubernetes)
	}
	e := fixture.New(t)
	e.Timeout = waitTimeout
	const pods = 120
	addNodes(e, 10)
	addVolumes(e, 10, 3*pods)
	flood := createFlood(e, e.Name("scheduler"), pods)
	older := sample(e, "  qps: 1000\n  burst: 2000\n", "  qps: 20\n  burst: 20\n") // or it would be done too soon
	newer := older
	t.Setenv(cluster.KubeEnv, newerKubernetes)
	newer.Binary = binary(e)
	binaries, err := cluster.Build(e.Context(), cluster.BuildOptions{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	wantServer(e, olderKubernetes)

	running := startProcess(e, older)
	refused, err := e.Cluster.StartScheduler(newer)
	if err != nil {
		t.Fatal(err)
	}
	refused.Expect()
	<-refused.Done()
	if log := refused.LogTail(); !strings.Contains(log, "unsupported version skew") || !strings.Contains(log, "must not be newer") {
		t.Errorf("a scheduler of %s on an API server of %s: %s, want a refusal with the rule", newerKubernetes, olderKubernetes, log)
	}

	if err := e.Cluster.Upgrade(binaries); err != nil {
		t.Fatal(err)
	}
	waitClaimed(e, pods/4)
	for _, component := range []*cluster.Component{e.Cluster.APIServer(), e.Cluster.Etcd()} {
		within(e, component.Stop)
	}
	for _, component := range []*cluster.Component{e.Cluster.Etcd(), e.Cluster.APIServer()} {
		within(e, component.Start)
	}
	wantServer(e, newerKubernetes)
	waitClaimed(e, 2*pods/4)
	within(e, e.Cluster.ControllerManager().Stop)
	within(e, e.Cluster.ControllerManager().Start)
	waitClaimed(e, 4*pods/4)
	if placed := scheduled(e, flood); placed == pods {
		t.Error("no pod was left for the newer scheduler")
	}
	within(e, running.Stop)
	startProcess(e, newer)
	wantSettled(e, flood...)
	if n := len(claimed(e)); n != 2*pods {
		t.Errorf("%d volumes are claimed, want %d: one for each claim\n%s", n, 2*pods, e.Dump())
	}
}

// waitClaimed waits until at least this many volumes have a claimRef.
func waitClaimed(e *fixture.Env, volumes int) {
	e.T.Helper()
	e.Wait(fmt.Sprintf("%d volumes to be claimed", volumes), func() bool { return len(claimed(e)) >= volumes })
}

// wantServer checks the minor version of the API server.
func wantServer(e *fixture.Env, minor string) {
	e.T.Helper()
	info, err := e.Client.Discovery().ServerVersion()
	if err != nil {
		e.T.Fatal(err)
	}
	if got := info.Major + "." + info.Minor; got != minor {
		e.T.Errorf("the API server is of Kubernetes %s, want %s", got, minor)
	}
}
