// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"stowage.dev/stowage/test/integration/fixture"
)

// own starts a deployment for one test.
func own(e *fixture.Env, p plan) *deployment {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), patience)
	defer cancel()
	d, err := deploy(ctx, e.Cluster, p)
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(d.stop)
	using(e, d)
	return d
}

// placed is how many of the Env's pods have a node.
func placed(e *fixture.Env) int {
	n := 0
	for _, pod := range e.SeenPods() {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// TestKilled: the extender is killed in the middle of 500 pods, and started again,
// twice. No volume is given twice, and all pods get theirs.
func TestKilled(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Timeout = patience * 2
	d := own(e, plan{mode: "full", name: "extender-killed"})
	pods := pack(e, 50, 10)
	for _, want := range []int{100, 250} {
		e.Wait("pods to be placed", func() bool { return placed(e) >= want })
		if err := d.replica[0].process.Kill(); err != nil {
			t.Fatal(err)
		}
		t.Logf("killed with %d pods placed", placed(e))
		if err := d.start(e.Context(), d.replica[0]); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	wantPacked(e, len(pods))
}

// TestTwoReplicas: both answer, connections go from one to the other, the certificates
// of both ends are exchanged, and one replica is killed and started again.
func TestTwoReplicas(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Timeout = patience * 2
	d := own(e, plan{mode: "full", name: "extender-two", replicas: 2})
	pods := pack(e, 20, 10)
	for want := 20; want <= len(pods); want += 20 {
		e.Wait("pods to be placed", func() bool { return placed(e) >= want })
		if want == 60 {
			until := time.Now().Add(30 * time.Minute)
			if err := errors.Join(d.certs.write("tls", serverName, until), d.certs.write("client", clientName, until)); err != nil {
				t.Fatal(err)
			}
		}
		d.proxy.cut()
		if want == 100 {
			if err := d.replica[1].process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := d.start(e.Context(), d.replica[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantPacked(e, len(pods))
}
