// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page_test opens the page of kubectl stowage ui in a real Chromium, on an API server and on files.
package page_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"stowage.dev/stowage/cmd/kubectl-stowage/app"
	"stowage.dev/stowage/test/browser"
	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/integration/fixture"
)

func TestMain(m *testing.M) { os.Exit(fixture.Main(m)) }

// ui is a running kubectl stowage ui.
type ui struct {
	t         testing.TB
	addresses chan string
}

// serve runs kubectl stowage ui until the end of the test.
func serve(t testing.TB, args ...string) *ui {
	t.Helper()
	u := &ui{t: t, addresses: make(chan string, 16)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	cmd := app.NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: u, ErrOut: u})
	cmd.SetArgs(append([]string{"ui", "--open=false"}, args...))
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		close(u.addresses)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("kubectl stowage ui: %v", err)
		}
	})
	return u
}

var printedAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\S+`)

// Write receives what the command prints, a line at a time.
func (u *ui) Write(line []byte) (int, error) {
	if address := printedAddress.Find(line); address != nil {
		u.addresses <- string(address)
	}
	return len(line), nil
}

// address returns the next address that is printed.
func (u *ui) address() string {
	u.t.Helper()
	ctx, cancel := deadline.Context(u.t.Context())
	defer cancel()
	select {
	case address, ok := <-u.addresses:
		if !ok {
			u.t.Fatal("kubectl stowage ui ended")
		}
		return address
	case <-ctx.Done():
		u.t.Fatal("kubectl stowage ui prints no address")
	}
	return ""
}

// open opens the page, and waits until it has all nodes. Scripts of tests find the map as window.shown.
func (u *ui) open(p *browser.Page) {
	u.t.Helper()
	p.Open(u.address())
	p.WaitElement("#connection")
	p.Wait(`window.shown?.model.complete || (import("/assets/main.js").then((m) => { window.shown = m.map; }), false)`)
}

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
