// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"errors"
	"time"

	"stowage.dev/stowage/pkg/testing/campaign"
	"stowage.dev/stowage/test/integration/fixture"
)

// own starts a deployment for one test.
func own(e *fixture.Env, p plan) *deployment {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), waitTimeout)
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

// kill kills the extender while pods come and starts it again some pods later, twice or, in full
// strength, ten times. No volume is given twice, and all pods get theirs.
func kill(e *fixture.Env) {
	e.T.Helper()
	e.Timeout = waitTimeout * 2
	d := own(e, plan{mode: "full", name: "extender-killed"})
	away := campaign.Scale(20, 50) // pods come while the extender is away, and as many before that
	pods := packWhile(e, campaign.Scale(8, 100), 10, func(created int) {
		var err error
		switch created % (2 * away) {
		case away:
			e.T.Logf("killed with %d of %d pods placed", placed(e), created)
			err = d.replica[0].process.Kill()
		case 0:
			err = d.launch(d.replica[0])
		}
		if err != nil {
			e.T.Fatal(err)
		}
	})
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	wantPacked(e, len(pods))
}

// useReplicas: two replicas answer, and connections alternate. The certificates of both ends
// are replaced, and the former ones are rejected; then one replica is killed and started
// again.
func useReplicas(e *fixture.Env) {
	e.T.Helper()
	e.Timeout = waitTimeout * 2
	d := own(e, plan{mode: "full", name: "extender-two", replicas: 2})
	other, err := newAuthority("other")
	if err != nil {
		e.T.Fatal(err)
	}
	until := time.Now().Add(30 * time.Minute)
	tenth := campaign.Scale(8, 40)
	pods := packWhile(e, tenth, 10, func(created int) {
		var err error
		switch created {
		case 3 * tenth:
			err = errors.Join(
				exchange(d.certs.path("ca.crt"), append(d.certs.authority.pem(), other.pem()...)),
				d.certs.write("tls", serverName, until),
				certificates{d.certs.dir, other}.write("client", clientName, until),
			)
		case 5 * tenth:
			e.T.Logf("the former certificates are rejected with %d of %d pods placed", placed(e), created)
			d.waitServed(e.T, until, nil)
			err = exchange(d.certs.path("ca.crt"), other.pem())
			d.waitRefused(e.T, d.client(e.T, d.certs.authority, clientName, until))
		case 7 * tenth:
			err = d.replica[1].process.Kill()
		case 8 * tenth:
			err = d.start(e.Context(), d.replica[1])
		}
		if err != nil {
			e.T.Fatal(err)
		}
		if created%tenth == 0 {
			d.proxy.cut()
		}
	})
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	wantPacked(e, len(pods))
}
