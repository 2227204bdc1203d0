// Copyright The Stowage Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// serve runs ServeCalls until the test ends.
func serve(t *testing.T, c CallsConfig) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Listener = listener
	c.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ServeCalls(ctx, c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func get(t *testing.T, client *http.Client, url string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func TestPlainCalls(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if got, err := get(t, client, "http://"+serve(t, CallsConfig{})); err != nil || got != "answer" {
		t.Errorf("got %q, error %v", got, err)
	}
}

// TestCallsNeedCertificates: clients without one, and those of plain HTTP, get no response.
func TestCallsNeedCertificates(t *testing.T) {
	files := certificate(t)
	address := serve(t, CallsConfig{CertFile: files.cert, KeyFile: files.key, ClientCAFile: files.cert})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the client's side is not what is tested
	if got, err := get(t, client, "https://"+address); err == nil {
		t.Errorf("a client without certificate got %q", got)
	}
	if got, err := get(t, client, "http://"+address); err == nil && strings.Contains(got, "answer") {
		t.Errorf("a client in plain HTTP got %q", got)
	}
}

// TestFilesThatAreMissing: serving fails with an error that names the file.
func TestFilesThatAreMissing(t *testing.T) {
	err := ServeCalls(t.Context(), CallsConfig{Address: "127.0.0.1:0", CertFile: "/does/not/exist.crt", KeyFile: "k", ClientCAFile: "c"})
	if err == nil || !strings.Contains(err.Error(), "/does/not/exist.crt") {
		t.Errorf("error %v", err)
	}
}
