// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"stowage.dev/stowage/cmd/kubectl-stowage/app"
	"stowage.dev/stowage/test/await"
	"stowage.dev/stowage/test/integration/fixture"
)

// output is what a command has printed.
type output struct {
	changes await.Changes

	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(text []byte) (int, error) {
	defer o.changes.Notify()
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// TestMapWatch: kubectl stowage map --watch prints the map, and again with a volume that is created later, until it is
// interrupted.
func TestMapWatch(t *testing.T) {
	t.Parallel()
	e := fixture.New(t)
	e.AddNodes(e.Node("a"))
	e.CreatePVs(e.LocalPV("first", "a").Capacity("3Gi"))
	var out output
	cmd := app.NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
	cmd.SetArgs([]string{"map", "--watch", "--node", e.Name("a"), "--kubeconfig", e.Cluster.Kubeconfig(), "--namespace", e.Namespace})
	ctx, interrupt := context.WithCancel(e.Context())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	wait := func(what string) {
		t.Helper()
		if err := out.changes.Wait(e.Context(), e.Timeout, what, func() bool { return strings.Contains(out.String(), what) }); err != nil {
			t.Errorf("%v; it printed %q", err, &out)
		}
	}
	wait("1 volume on 1 node, 3Gi")
	e.CreatePVs(e.LocalPV("second", "a").Capacity("4Gi"))
	wait("2 volumes on 1 node, 7Gi")
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
