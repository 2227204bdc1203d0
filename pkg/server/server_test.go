// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnswers(t *testing.T) {
	c := Config{
		Healthy: func() error { return nil },
		Ready: func(part string) error {
			if part == "slow" {
				return errors.New("class slow: the directory is not there")
			}
			return nil
		},
	}
	for name, test := range map[string]struct {
		method, path string
		status       int
		body         string
	}{
		"health":                       {"GET", "/healthz", 200, "ok\n"},
		"life":                         {"GET", "/livez", 200, "ok\n"},
		"readiness of the whole":       {"GET", "/readyz", 200, "ok\n"},
		"readiness of a part":          {"GET", "/readyz/fast", 200, "ok\n"},
		"a part that is not ready":     {"GET", "/readyz/slow", 503, "class slow: the directory is not there\n"},
		"metrics":                      {"GET", "/metrics", 200, ""},
		"what is not there":            {"GET", "/debug/pprof", 404, "404 page not found\n"},
		"a method that is not allowed": {"DELETE", "/healthz", 405, "Method Not Allowed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler(c).ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
			if w.Code != test.status || test.body != "" && w.Body.String() != test.body {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, test.status, test.body)
			}
		})
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Serve(ctx, Config{Address: "127.0.0.1:0"}); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAddressThatIsTaken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address := listener.Addr().String()
	if err := Serve(t.Context(), Config{Address: address}); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("got %v, want an error that names %s", err, address)
	}
}
