// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui runs kubectl stowage ui for tests, and makes up clusters for it to show.
package ui

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"stowage.dev/stowage/cmd/kubectl-stowage/app"
	"stowage.dev/stowage/test/browser"
	"stowage.dev/stowage/test/deadline"
)

// UI is a running kubectl stowage ui.
type UI struct {
	t         testing.TB
	addresses chan string
}

// Serve runs kubectl stowage ui until the end of the test.
func Serve(t testing.TB, args ...string) *UI {
	t.Helper()
	u := &UI{t: t, addresses: make(chan string, 16)}
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
func (u *UI) Write(line []byte) (int, error) {
	if address := printedAddress.Find(line); address != nil {
		u.addresses <- string(address)
	}
	return len(line), nil
}

// Address returns the next address that is printed.
func (u *UI) Address() string {
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

// Open opens the page, and waits until it has all nodes. Scripts of tests find the map as shown, and wait for it with
// browser.Page.Wait.
func (u *UI) Open(p *browser.Page) {
	u.t.Helper()
	p.Open(u.Address())
	p.WaitElement("#connection")
	p.Wait(`window.shown?.model.complete || (import("/assets/main.js").then((m) => { window.shown = m.map; }), false)`)
}
