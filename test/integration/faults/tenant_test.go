// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"stowage.dev/stowage/test/cluster"
	"stowage.dev/stowage/test/integration/fixture"
)

// TestOtherTenantsClaims: the pods of a tenant have hundreds of claims whose selected-node,
// which users may write, names nodes that do not exist. They cost the scheduler no request to
// the API server, so at the default client rate they do not hold up another tenant's pods. How
// long those took is logged, before and beside the others.
func TestOtherTenantsClaims(t *testing.T) {
	t.Parallel()
	const measured, pods, claims = 8, 5, 50
	e := fixture.New(t)
	e.Timeout = waitTimeout
	addNodes(e, 2)
	p := startProcess(e, sample(e, "  qps: 1000\n  burst: 2000\n", "  qps: 50\n  burst: 100\n"))
	e.Use(e.Name("scheduler"))
	place := func(when string) {
		t.Helper()
		var took []time.Duration
		for i := range measured {
			name := fmt.Sprintf("%s-%d", when, i)
			e.CreatePVs(e.LocalPV(name, fmt.Sprintf("node-%d", i%2)))
			e.CreatePVC(e.PVC(name))
			begun := time.Now()
			e.WaitScheduled(e.CreatePod(e.Pod(name).PVC(name)))
			took = append(took, time.Since(begun).Round(time.Millisecond))
		}
		slices.Sort(took)
		t.Logf("%s: %d pods took %v in the median and %v at most", when, measured, took[measured/2], took[measured-1])
	}
	place("before")
	e.CreateClass(e.Class("none").Provisioner("kubernetes.io/no-provisioner"))
	var hostile []*v1.Pod
	gets := requests(e, p, "GET")
	for i := range pods {
		var names []string
		for j := range claims {
			name := fmt.Sprintf("hostile-%d-%d", i, j)
			e.CreatePVC(e.PVC(name).Class(e.Name("none")).SelectedNode(fmt.Sprintf("no-node-%d-%d", i, j)))
			names = append(names, name)
		}
		hostile = append(hostile, e.CreatePod(e.Pod(fmt.Sprintf("hostile-%d", i)).PVC(names...)))
	}
	place("beside")
	for _, pod := range hostile {
		e.WaitUnschedulable(pod, "")
	}
	// Watches are sometimes reopened; one GET for a claim would be fifty for a pod.
	if more := requests(e, p, "GET") - gets; more >= claims {
		t.Errorf("the scheduler sent %d GET requests for pods that nothing can place", more)
	}
}

// requests are how many requests of a method the process has sent to the API server.
func requests(e *fixture.Env, p *cluster.Process, method string) int {
	e.T.Helper()
	sum := 0
	for _, line := range metricsOf(e, p) {
		if !strings.HasPrefix(line, "rest_client_requests_total{") || !strings.Contains(line, `method="`+method+`"`) {
			continue
		}
		n, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
		if err != nil {
			e.T.Fatal(err)
		}
		sum += n
	}
	if sum == 0 {
		e.T.Fatalf("the scheduler's metrics do not count its %s requests", method)
	}
	return sum
}
