// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stowage.dev/stowage/pkg/testing/builders"
)

// TestListen: other machines cannot connect.
func TestListen(t *testing.T) {
	t.Parallel()
	listener, err := Listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if address := listener.Addr().(*net.TCPAddr); !address.IP.IsLoopback() {
		t.Errorf("listens at %s", address)
	}
	if _, err := Listen(t.Context(), listener.Addr().(*net.TCPAddr).Port); err == nil {
		t.Error("a port that is in use is no error")
	}
}

// TestExchange: a token is random and begins one session, whose cookie has the flags that keep it from scripts and from
// other sites. The token leaves the address.
func TestExchange(t *testing.T) {
	t.Parallel()
	r := run(t, newSource(), answers{})
	address := <-r.addresses
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/\?token=[A-Za-z0-9_-]{43}$`).MatchString(address) {
		t.Errorf("address %s", address)
	}
	response, body := r.do(address, nil)
	if response.StatusCode != http.StatusOK || !strings.Contains(body, `<meta http-equiv="refresh" content="0;url=/">`) || response.Header.Get("Location") != "" {
		t.Errorf("status %d, %s", response.StatusCode, body)
	}
	_, port, _ := net.SplitHostPort(r.host)
	if got := response.Header.Values("Set-Cookie"); len(got) != 1 || !regexp.MustCompile(`^stowage-ui-`+port+`=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; SameSite=Strict$`).MatchString(got[0]) {
		t.Errorf("cookies %q", got)
	}
	first := response.Cookies()[0]
	if strings.Contains(address, first.Value) {
		t.Error("the session is the token")
	}

	second := <-r.addresses
	for name, used := range map[string]string{"the token that was used": address, "a token that was guessed": second[:len(second)-1] + "!", "no token": "/?token="} {
		response, body := r.do(used, func(r *http.Request) { r.Header.Set("Accept", "text/html") })
		if response.StatusCode != http.StatusForbidden || len(response.Cookies()) > 0 || !strings.Contains(body, "the last address that kubectl stowage ui printed in its terminal") {
			t.Errorf("%s: status %d, cookies %v, %s", name, response.StatusCode, response.Cookies(), body)
		}
	}
	if response, _ := r.do(second, func(r *http.Request) { r.Method = http.MethodHead }); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("HEAD with a token: status %d", response.StatusCode)
	}
	response, _ = r.do(second, nil)
	if len(response.Cookies()) != 1 || response.Cookies()[0].Value == first.Value {
		t.Errorf("the second session has cookies %v", response.Cookies())
	}
	r.cookie = first
	if response, _ := r.do("/", nil); response.StatusCode != http.StatusOK {
		t.Errorf("the first session: status %d", response.StatusCode)
	}
}

// TestSessionsAreBounded: the oldest ends.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	r := open(t, newSource(), answers{})
	for range maxSessions - 1 {
		r.do(<-r.addresses, nil)
	}
	if response, _ := r.do("/", nil); response.StatusCode != http.StatusOK {
		t.Errorf("with %d sessions: status %d", maxSessions, response.StatusCode)
	}
	r.do(<-r.addresses, nil)
	if response, _ := r.do("/", nil); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("with one more: status %d", response.StatusCode)
	}
}

// TestRefused: requests that the page does not send.
func TestRefused(t *testing.T) {
	t.Parallel()
	r := open(t, newSource(builders.MakeNode("a").Obj()), answers{})
	_, port, _ := net.SplitHostPort(r.host)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	method := func(name string) func(*http.Request) { return func(r *http.Request) { r.Method = name } }
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"the page":                         {func(*http.Request) {}, http.StatusOK},
		"localhost":                        {host("localhost:" + port), http.StatusOK},
		"HEAD":                             {method(http.MethodHead), http.StatusOK},
		"its own origin":                   {header("Origin", "http://"+r.host), http.StatusOK},
		"same origin":                      {header("Sec-Fetch-Site", "same-origin"), http.StatusOK},
		"the address bar":                  {header("Sec-Fetch-Site", "none"), http.StatusOK},
		"no cookie":                        {func(r *http.Request) { r.Header.Del("Cookie") }, http.StatusUnauthorized},
		"an empty cookie":                  {header("Cookie", r.cookie.Name+"="), http.StatusUnauthorized},
		"another session":                  {header("Cookie", r.cookie.Name+"="+random()), http.StatusUnauthorized},
		"the session under another name":   {header("Cookie", "stowage-ui-1="+r.cookie.Value), http.StatusUnauthorized},
		"another host":                     {host("evil.example.com:" + port), http.StatusMisdirectedRequest},
		"a host that begins alike":         {host("127.0.0.1:" + port + ".example.com"), http.StatusMisdirectedRequest},
		"another port":                     {host("127.0.0.1:1"), http.StatusMisdirectedRequest},
		"no port":                          {host("localhost"), http.StatusMisdirectedRequest},
		"IPv6":                             {host("[::1]:" + port), http.StatusMisdirectedRequest},
		"another origin":                   {header("Origin", "http://evil.example.com"), http.StatusForbidden},
		"the origin of another port":       {header("Origin", "http://127.0.0.1:1"), http.StatusForbidden},
		"the origin of https":              {header("Origin", "https://"+r.host), http.StatusForbidden},
		"the other name as origin":         {header("Origin", "http://localhost:"+port), http.StatusForbidden},
		"an opaque origin":                 {header("Origin", "null"), http.StatusForbidden},
		"two origins":                      {func(q *http.Request) { q.Header["Origin"] = []string{"http://" + r.host, "http://evil"} }, http.StatusForbidden},
		"another site":                     {header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"another port of the machine":      {header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"POST":                             {method(http.MethodPost), http.StatusMethodNotAllowed},
		"DELETE":                           {method(http.MethodDelete), http.StatusMethodNotAllowed},
		"OPTIONS, as before other origins": {method(http.MethodOptions), http.StatusMethodNotAllowed},
		"TRACE":                            {method(http.MethodTrace), http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/", "/assets/main.js", "/assets/style.css"} {
				response, body := r.do(path, tc.change)
				if response.StatusCode != tc.want {
					t.Errorf("%s: status %d, want %d: %s", path, response.StatusCode, tc.want, body)
				}
				if tc.want == http.StatusMethodNotAllowed && response.Header.Get("Allow") != "GET, HEAD" {
					t.Errorf("%s: allows %q", path, response.Header.Get("Allow"))
				}
			}
		})
	}
}

// TestRefusedEverywhere: each path needs the session and the host, and the token is not valid from other sites.
func TestRefusedEverywhere(t *testing.T) {
	t.Parallel()
	r := run(t, newSource(builders.MakeNode("a").Obj()), answers{})
	address, err := url.Parse(<-r.addresses)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/events", "/why?kind=node&name=a", "/fit?claims=1Gi", "/assets/main.js", "/assets/none", "/none", "//", "/../etc/passwd"} {
		if response, body := r.do(path, nil); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a session: status %d: %s", path, response.StatusCode, body)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"another host":   func(r *http.Request) { r.Host = "evil.example.com" },
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example.com") },
		"another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		if response, _ := r.do(address.String(), change); response.StatusCode == http.StatusOK || len(response.Cookies()) > 0 {
			t.Errorf("the token from %s: status %d, cookies %v", name, response.StatusCode, response.Cookies())
		}
	}
	if response, _ := r.do(address.String(), nil); response.StatusCode != http.StatusOK {
		t.Errorf("the token after that: status %d", response.StatusCode)
	}
}

// TestHeaders: all answers have them.
func TestHeaders(t *testing.T) {
	t.Parallel()
	r := open(t, newSource(builders.MakeNode("a").Obj()), answers{})
	want := http.Header{
		"Content-Security-Policy":      {"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"},
		"X-Content-Type-Options":       {"nosniff"},
		"Referrer-Policy":              {"no-referrer"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
		"Cache-Control":                {"no-store"},
	}
	none := func(*http.Request) {}
	for path, change := range map[string]func(*http.Request){
		"/": none, "/assets/main.js": none, "/none": none, "/why": none, "/?token=x": none, <-r.addresses: none,
		"/fit": func(r *http.Request) { r.Host = "evil" }, "/assets/style.css": func(r *http.Request) { r.Header.Del("Cookie") },
	} {
		response, _ := r.do(path, change)
		got := http.Header{}
		for name := range want {
			got[name] = response.Header.Values(name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// TestAssets: each file of the page has its content type, and what is served is only that.
func TestAssets(t *testing.T) {
	t.Parallel()
	r := open(t, newSource(), answers{})
	files, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		want, err := assets.ReadFile("assets/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		response, body := r.do("/assets/"+file.Name(), nil)
		if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || body != string(want) || kind == "" {
			t.Errorf("%s: status %d, type %q", file.Name(), response.StatusCode, kind)
		}
	}
	if response, body := r.do("/", nil); response.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(body, "<!doctype html>") {
		t.Errorf("/ is %s: %s", response.Header.Get("Content-Type"), body)
	}
	for _, path := range []string{"/assets/", "/assets/none.js", "/assets/..%2fpage.go", "/index.html", "/favicon.ico"} {
		if response, _ := r.do(path, nil); response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", path, response.StatusCode)
		}
	}
}

// TestLimits: headers that are too large, and too many pages.
func TestLimits(t *testing.T) {
	t.Parallel()
	r := open(t, newSource(), answers{})
	response, _ := r.do("/", func(r *http.Request) { r.Header.Set("X", strings.Repeat("x", 4*maxHeader)) })
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", response.StatusCode)
	}
	for i := range maxStreams {
		if r.server.board.open() == nil {
			t.Fatalf("stream %d is refused", i)
		}
	}
	if response, body := r.do("/events", nil); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "close some of them") {
		t.Errorf("status %d: %s", response.StatusCode, body)
	}
}
