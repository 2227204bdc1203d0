// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page_test opens the page of kubectl stowage ui in a real Chromium, on an API server and on files.
package page_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"stowage.dev/stowage/cmd/kubectl-stowage/app"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m)) }

// run runs the plugin, and returns what it prints on one line.
func run(t testing.TB, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := app.NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
	cmd.SetArgs(args)
	ctx, cancel := deadline.Context(t.Context())
	defer cancel()
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Fatalf("kubectl stowage %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// outage is a way to the API server that can be cut.
type outage struct {
	listener net.Listener
	target   string

	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

func newOutage(t testing.TB, target string) *outage {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &outage{listener: listener, target: target}
	var running sync.WaitGroup
	running.Go(func() { o.accept(&running) })
	t.Cleanup(func() {
		_ = listener.Close()
		o.set(true)
		running.Wait()
	})
	return o
}

func (o *outage) accept(running *sync.WaitGroup) {
	for {
		from, err := o.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", o.target) //nolint:noctx // it is closed by set
		if err != nil || !o.track(from, to) {
			_ = from.Close()
			continue
		}
		for _, ends := range [][2]net.Conn{{from, to}, {to, from}} {
			running.Go(func() {
				_, _ = io.Copy(ends[0], ends[1])
				_, _ = ends[0].Close(), ends[1].Close()
			})
		}
	}
}

// track keeps connections to close. While the way is cut it closes them.
func (o *outage) track(ends ...net.Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = append(o.open, ends...)
	if o.cut {
		o.closeAll()
	}
	return !o.cut
}

// set cuts the way, or restores it.
func (o *outage) set(cut bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cut = cut
	o.closeAll()
}

func (o *outage) closeAll() {
	for _, c := range o.open {
		_ = c.Close()
	}
	o.open = nil
}
