// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover_test

import (
	"os/exec"
	"strings"
	"testing"

	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
)

// result is how a run of the command ended.
type result struct {
	// out is its output, errors included.
	out    string
	failed bool
}

// command runs kubectl-stowage with an administrator's kubeconfig.
func command(e *fixture.Env, args ...string) result {
	e.T.Helper()
	ctx, cancel := deadline.Context(e.Context())
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, append(args, "--kubeconfig="+e.Cluster.Kubeconfig())...).CombinedOutput()
	e.T.Logf("kubectl stowage %s: %v\n%s", strings.Join(args, " "), err, out)
	return result{out: string(out), failed: err != nil}
}

// succeeds runs the command, which must succeed and print all the parts.
func succeeds(e *fixture.Env, args []string, parts ...string) {
	e.T.Helper()
	expect(e.T, command(e, args...), false, parts)
}

// fails runs the command, which must fail and print all the parts.
func fails(e *fixture.Env, args []string, parts ...string) {
	e.T.Helper()
	expect(e.T, command(e, args...), true, parts)
}

func expect(t testing.TB, r result, failed bool, parts []string) {
	t.Helper()
	if r.failed != failed {
		t.Fatalf("failed: %t, want %t", r.failed, failed)
	}
	for _, part := range parts {
		if !strings.Contains(r.out, part) {
			t.Errorf("it does not print %q", part)
		}
	}
}
