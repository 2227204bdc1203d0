// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"errors"
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

// kill kills the extender in the middle of 500 pods and starts it again 50 pods later,
// twice. No volume is given twice, and all pods get theirs.
func kill(e *fixture.Env) {
	e.T.Helper()
	e.Timeout = patience * 2
	d := own(e, plan{mode: "full", name: "extender-killed"})
	pods := packWhile(e, 50, 10, func(created int) {
		var err error
		switch created {
		case 150, 350:
			e.T.Logf("killed with %d of %d pods placed", placed(e), created)
			err = d.replica[0].process.Kill()
		case 200, 400:
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

// useReplicas: two answer about 200 pods, and connections go from one to the other. The
// certificates of both ends are exchanged, and those of before are refused; then one
// replica is killed and started again.
func useReplicas(e *fixture.Env) {
	e.T.Helper()
	e.Timeout = patience * 2
	d := own(e, plan{mode: "full", name: "extender-two", replicas: 2})
	other, err := newAuthority("other")
	if err != nil {
		e.T.Fatal(err)
	}
	until := time.Now().Add(30 * time.Minute)
	pods := packWhile(e, 20, 10, func(created int) {
		var err error
		switch created {
		case 60:
			err = errors.Join(
				exchange(d.certs.path("ca.crt"), append(d.certs.authority.pem(), other.pem()...)),
				d.certs.write("tls", serverName, until),
				certificates{d.certs.dir, other}.write("client", clientName, until),
			)
		case 100:
			e.T.Logf("the certificates of before are given up with %d of %d pods placed", placed(e), created)
			d.waitServed(e.T, until, nil)
			err = exchange(d.certs.path("ca.crt"), other.pem())
			d.waitRefused(e.T, d.client(e.T, d.certs.authority, clientName, until))
		case 140:
			err = d.replica[1].process.Kill()
		case 160:
			err = d.start(e.Context(), d.replica[1])
		}
		if err != nil {
			e.T.Fatal(err)
		}
		if created%20 == 0 {
			d.proxy.cut()
		}
	})
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	wantPacked(e, len(pods))
}
