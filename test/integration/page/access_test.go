// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/test/browser"
	"stowage.dev/stowage/test/ui"
)

// TestAccess: what a browser does with addresses that are used up or have no token, and with another site that links to
// the page, frames it, reads from it, or gives it another name.
func TestAccess(t *testing.T) {
	t.Parallel()
	p := browser.Start(t).Page(t)
	u := ui.Serve(t, "--from", (&ui.Sample{Nodes: 3, Disks: 4}).Write(t))
	first := u.Address()
	own, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	page := "http://" + own.Host + "/"
	refused := func(address, want string) {
		t.Helper()
		p.Open(address)
		if got := p.Text("body"); got != want {
			t.Errorf("%s shows %q, want %q", address, got, want)
		}
	}
	const noSession = "This browser has no session: open the last address that kubectl stowage ui printed in its terminal."
	const usedUp = "This address is not valid, or no longer: each can be opened once. Open the last address that kubectl stowage ui printed in its terminal."
	refused(page, noSession)
	refused(page+"?token=guessed", usedUp)

	p.Open(first)
	p.WaitElement("#legend button")
	if got := browser.Eval[string](p, "location.href"); got != page {
		t.Errorf("the address is %s, want %s without the token", got, page)
	}
	refused(first, usedUp)
	p.Open(page) // the session is still valid
	p.WaitElement("#legend button")

	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<a href="%s">map</a><iframe src="%[1]s"></iframe>`, page)
	}))
	t.Cleanup(site.Close)
	p.Expect(`"frame-ancestors 'none'". The request has been blocked.`)
	p.Open(site.URL) // 127.0.0.1 with another port is the same site, with another origin
	reads := fmt.Sprintf(`(async () => {
		const of = async (path, options) => { try { return String((await fetch(%q + path, options)).status); } catch (error) { return error.name; } };
		return [await of("events", { credentials: "include" }), await of("why?kind=node&name=x", { credentials: "include", mode: "cors" }), await of("fit", { method: "POST", credentials: "include" })];
	})()`, page)
	if diff := cmp.Diff([]string{"TypeError", "TypeError", "TypeError"}, browser.Eval[[]string](p, reads)); diff != "" {
		t.Errorf("what another origin reads (-want +got):\n%s", diff)
	}
	browser.Eval[any](p, `document.querySelector("a").click()`)
	p.WaitElement("body:not(:has(iframe))")
	if got := p.Text("body"); got != "Other sites cannot open this page: copy the address that kubectl stowage ui printed into the browser's address bar." {
		t.Errorf("a link of another origin shows %q", got)
	}
	refused("http://[::ffff:127.0.0.1]:"+own.Port()+"/", "This is not the address that kubectl stowage ui printed.")
}
