// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// maxSessions bounds the sessions. The oldest ends when there are more.
const maxSessions = 32

// access decides which requests are answered: those of the user's browsers, which got the token of an address that
// was printed, and only from the page itself. It is safe for concurrent use.
type access struct {
	// hosts are the values of the header Host that are accepted: with another one, the name of another site leads to
	// this machine (DNS rebinding).
	hosts []string
	// cookie is the name of the session's cookie. It has the port: all ports of a host share cookies.
	cookie string
	// renewed has a value if there is a new token.
	renewed chan struct{}

	mu       sync.Mutex
	token    string   // of the next session
	sessions []string // the oldest first
}

func newAccess(address net.Addr) *access {
	_, port, _ := net.SplitHostPort(address.String()) // of a listener
	return &access{
		hosts:  []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("localhost", port)},
		cookie: "stowage-ui-" + port, renewed: make(chan struct{}, 1), token: random(),
	}
}

// address returns the address with the token.
func (a *access) address() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("http://%s/?token=%s", a.hosts[0], a.token)
}

// random returns 256 random bits.
func random() string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it does not fail
	return base64.RawURLEncoding.EncodeToString(secret[:])
}

// equal compares secrets in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// headers are those of all answers: nothing is loaded from elsewhere, kept, or shown in another site.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// guard answers requests with next if they have a session.
func (a *access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		if status, err := a.foreign(r); err != nil {
			if status == http.StatusMethodNotAllowed {
				w.Header().Set("Allow", "GET, HEAD")
			}
			refuse(w, r, status, err.Error())
			return
		}
		query := r.URL.Query()
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/" && query.Has("token"):
			a.exchange(w, r, query.Get("token"))
		case !a.session(r):
			refuse(w, r, http.StatusUnauthorized, "This browser has no session: open the last address that kubectl stowage ui printed in its terminal.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// foreign returns why a request is refused that the page itself does not send.
func (a *access) foreign(r *http.Request) (status int, err error) {
	if !slices.Contains(a.hosts, r.Host) {
		return http.StatusMisdirectedRequest, errors.New("This is not the address that kubectl stowage ui printed.")
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return http.StatusMethodNotAllowed, errors.New("Only the methods GET and HEAD are served: the page changes nothing.")
	}
	for _, origin := range r.Header.Values("Origin") {
		if origin != "http://"+r.Host {
			return http.StatusForbidden, errors.New("Other sites cannot use this page.")
		}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return http.StatusForbidden, errors.New("Other sites cannot open this page: copy the address that kubectl stowage ui printed into the browser's address bar.")
		}
	}
	return 0, nil
}

// session reports whether a request has a session.
func (a *access) session(r *http.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, cookie := range r.CookiesNamed(a.cookie) {
		for _, session := range a.sessions {
			if equal(cookie.Value, session) {
				return true
			}
		}
	}
	return false
}

// exchange exchanges the token for a session, and moves on to the page. A redirect would not: the cookie is not sent after
// one that begins at a link of another site.
func (a *access) exchange(w http.ResponseWriter, r *http.Request, token string) {
	session, ok := a.begin(token)
	if !ok {
		refuse(w, r, http.StatusForbidden, "This address is not valid, or no longer: each can be opened once. Open the last address that kubectl stowage ui printed in its terminal.")
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // not Secure: it is for http on the loopback interface
		Name: a.cookie, Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	answerHTML(w, http.StatusOK, `<meta http-equiv="refresh" content="0;url=/">`, `<a href="/">Storage map</a>`)
}

// begin returns a session for the token, which is replaced.
func (a *access) begin(token string) (session string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !equal(token, a.token) {
		return "", false
	}
	a.token, session = random(), random()
	select {
	case a.renewed <- struct{}{}:
	default:
	}
	a.sessions = append(a.sessions, session)
	a.sessions = slices.Clone(a.sessions[max(0, len(a.sessions)-maxSessions):])
	return session, true
}

// refuse answers with an error: as a page to what a browser shows, else as JSON.
func refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		answerError(w, status, errors.New(text))
		return
	}
	answerHTML(w, status, "", text)
}

// answerHTML answers with a short page.
func answerHTML(w http.ResponseWriter, status int, head, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Storage map</title>%s</head><body><p>%s</p></body></html>\n", head, body)
}
