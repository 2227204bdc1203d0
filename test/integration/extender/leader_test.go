// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package extender_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"stowage.dev/stowage/test/integration/fixture"
)

// TestLeaderKilled: of two replicas with leader election one is ready and answers;
// when it is killed, the other takes over.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.Timeout = patience
	d := own(e, plan{mode: "full", name: "extender-leader", noScheduler: true, extender: []string{
		"{leaderElect: false}", "{leaderElect: true, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}",
	}})
	second := &replica{}
	for _, port := range []*int{&second.port, &second.health} {
		var err error
		if *port, err = freePort(); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.launch(second); err != nil {
		t.Fatal(err)
	}
	d.replica = append(d.replica, second)
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		status, text := second.get(ctx, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "standing by"), nil
	})
	if err != nil {
		t.Fatalf("the second replica does not stand by: %v", err)
	}
	if status, _ := d.replica[0].get(t.Context(), "/readyz"); status != http.StatusOK {
		t.Errorf("the leader is not ready: status %d", status)
	}
	if err := d.replica[0].process.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := second.await(ctx); err != nil {
		t.Error(err)
	}
}

// TestAPIServerRestarted: in the middle of 100 pods. Each has its volume afterwards.
func TestAPIServerRestarted(t *testing.T) {
	t.Parallel()
	e := fixture.NewOn(t, fixture.DefaultConfig())
	e.Timeout = 2 * patience
	if err := prepare(e.Context(), e.Cluster); err != nil {
		t.Fatal(err)
	}
	own(e, plan{mode: "full", name: "extender-api"})
	pods := pack(e, 20, 5)
	e.Wait("pods to be placed", func() bool { return placed(e) >= 20 })
	ctx, cancel := context.WithTimeout(e.Context(), patience)
	defer cancel()
	if err := e.Cluster.APIServer().Restart(ctx); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		e.WaitScheduled(pod)
	}
	wantPacked(e, len(pods))
}
