// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package browser opens pages in a real Chromium, without a screen. Every wait is for what the page shows, and ends after
// deadline.Wait.
package browser

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stowage.dev/stowage/test/deadline"
	"stowage.dev/stowage/test/requirements"
)

// Browser is a running Chromium. It is safe for concurrent use.
type Browser struct{ ctx context.Context }

// Start starts Chromium, which ends with the test. The test is skipped on a machine without it.
func Start(t testing.TB) *Browser {
	t.Helper()
	if err := requirements.Missing(requirements.Browser); err != nil {
		t.Skip(err)
	}
	options := []chromedp.ExecAllocatorOption{chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.ExecPath("chromium"),
		chromedp.Flag("force-device-scale-factor", "1"), chromedp.Flag("disable-dev-shm-usage", true)}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root cannot have
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := deadline.Context(ctx)
		defer cancel()
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("end Chromium: %v", err)
		}
	})
	return &Browser{ctx: ctx}
}

// Page is a page with cookies of its own. It is for one goroutine.
type Page struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	expected map[string]bool // whether it was logged
}

// Expect says what the browser will log, at least once: a part of a message. It is no failure.
func (p *Page) Expect(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected[text] = false
}

// log is called for what the browser logs.
func (p *Page) log(message chromedp.ConsoleMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for text := range p.expected {
		if strings.Contains(message.Text, text) {
			p.expected[text] = true
			return
		}
	}
	if message.IsException() || strings.Contains(message.Text, "Content Security Policy") {
		p.t.Errorf("the page logged: %s", message)
	}
}

// Page makes an empty page, which is closed at the end of the test. The test fails for exceptions of its scripts, and for
// what its content security policy refuses.
func (b *Browser) Page(t testing.TB) *Page {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	if err := chromedp.Do(ctx); err != nil { // the page lives as long as the context of this call
		t.Fatalf("open a page: %v", err)
	}
	p := &Page{t: t, ctx: ctx, expected: map[string]bool{}}
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		for message, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			p.log(message)
		}
	}()
	t.Cleanup(func() {
		end()
		<-logged
		for text, seen := range p.expected {
			if !seen {
				t.Errorf("the browser did not log %q", text)
			}
		}
	})
	return p
}

func (p *Page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := deadline.Context(p.ctx)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// Open opens an address.
func (p *Page) Open(address string) {
	p.t.Helper()
	p.do(chromedp.Navigate(address))
}

// Resize sets the size of the window, in CSS pixels.
func (p *Page) Resize(width, height int) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(int64(width), int64(height)))
}

// Media sets the media type, screen or print, and the preferred colour scheme, dark or light.
func (p *Page) Media(media, scheme string) {
	p.t.Helper()
	ctx, cancel := deadline.Context(p.ctx)
	defer cancel()
	params := emulation.SetEmulatedMediaParams{Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, params); err != nil {
		p.t.Fatal(err)
	}
}

// Keys presses keys: those of texts, and those of package kb. A key that a script handles types nothing.
func (p *Page) Keys(texts ...string) {
	p.t.Helper()
	ctx, cancel := deadline.Context(p.ctx)
	defer cancel()
	for _, r := range strings.Join(texts, "") {
		for _, event := range kb.Encode(r) {
			if event.Type == kb.KeyChar {
				continue // it types even if the event before was handled
			}
			if key := kb.Keys[r]; event.Type == kb.KeyDown && key != nil && key.Print {
				event.Text, event.UnmodifiedText = key.Text, key.Unmodified
			}
			if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, *event); err != nil {
				p.t.Fatalf("press %q: %v", r, err)
			}
		}
	}
}

// Click clicks at a point of the window.
func (p *Page) Click(x, y float64) {
	p.t.Helper()
	p.do(chromedp.MouseClickXY(x, y))
}

// WaitElement waits until there is an element, also on the page that this one moves on to.
func (p *Page) WaitElement(selector string) {
	p.t.Helper()
	p.do(chromedp.WaitReady(chromedp.CSS(selector)))
}

// Wait waits until a JavaScript expression is true. It is evaluated before each frame.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	ctx, cancel := deadline.Context(p.ctx)
	defer cancel()
	poll := chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(deadline.Wait()))
	if _, err := chromedp.Run(ctx, poll); err != nil {
		p.t.Fatalf("wait for %s: %v\nThe page shows:\n%s", expression, err, Eval[string](p, "document.body?.innerText"))
	}
}

// Screenshot returns the window as a PNG.
func (p *Page) Screenshot() []byte {
	p.t.Helper()
	ctx, cancel := deadline.Context(p.ctx)
	defer cancel()
	image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatalf("take a screenshot: %v", err)
	}
	return image
}

// Eval returns the value of a JavaScript expression; of a promise, that with which it is fulfilled.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	ctx, cancel := deadline.Context(p.ctx)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Text returns what an element shows, on one line.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	text := Eval[string](p, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
	return strings.Join(slices.Collect(strings.FieldsSeq(text)), " ")
}
